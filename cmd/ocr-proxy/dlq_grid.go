package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// grid is a table that can be made narrower. Widths are in characters.
type grid struct{ columns []*gridColumn }

type gridColumn struct {
	head  string
	cells []string
}

func newGrid(heads ...string) *grid {
	g := &grid{}
	for _, head := range heads {
		g.columns = append(g.columns, &gridColumn{head: head})
	}
	return g
}

// add adds a row; its cells must be printable, one for each column.
func (g *grid) add(cells ...string) {
	for i, c := range g.columns {
		c.cells = append(c.cells, cells[i])
	}
}

func (c *gridColumn) width() int {
	widest := utf8.RuneCountInString(c.head)
	for _, cell := range c.cells {
		widest = max(widest, utf8.RuneCountInString(cell))
	}
	return widest
}

// gap is between two columns.
const gap = "  "

func (g *grid) width() int {
	sum := len(gap) * max(len(g.columns)-1, 0)
	for _, c := range g.columns {
		sum += c.width()
	}
	return sum
}

// narrowing makes a grid narrower in one way, by as much as it is too wide if it can.
type narrowing func(g *grid, excess int)

// fit makes the grid narrow enough, the least loss first. Width 0 is no limit.
func (g *grid) fit(width int, ways ...narrowing) {
	for _, narrow := range ways {
		excess := g.width() - width
		if width <= 0 || excess <= 0 {
			return
		}
		narrow(g, excess)
	}
}

// drop leaves a column out.
func drop(head string) narrowing {
	return func(g *grid, _ int) {
		g.columns = slices.DeleteFunc(g.columns, func(c *gridColumn) bool { return c.head == head })
	}
}

// part shows the characters from..to of each cell.
func part(head string, from, to int) narrowing {
	return inColumn(head, func(cell string, _ int) string {
		if len(cell) < to {
			return cell
		}
		return cell[from:to]
	})
}

// cut shows the beginning of each cell, which can be used in its place, and at least so many characters.
func cut(head string, least int) narrowing {
	return inColumn(head, func(cell string, room int) string { return cell[:min(len(cell), max(room, least))] })
}

// squeeze shortens cells to as little as so many characters, and shows that it did.
func squeeze(head string, least int) narrowing {
	return inColumn(head, func(cell string, room int) string { return short(cell, max(room, least)) })
}

// inColumn changes the cells of one column. The room is what the column may take so that the grid fits.
func inColumn(head string, change func(cell string, room int) string) narrowing {
	return func(g *grid, excess int) {
		for _, c := range g.columns {
			if c.head != head {
				continue
			}
			room := c.width() - excess
			for i, cell := range c.cells {
				c.cells[i] = change(cell, room)
			}
		}
	}
}

// write writes the heads and the rows.
func (g *grid) write(w io.Writer) error {
	if len(g.columns) == 0 {
		return nil
	}
	widths := make([]int, len(g.columns))
	for i, c := range g.columns {
		widths[i] = c.width()
	}
	var b strings.Builder
	line := func(cell func(*gridColumn) string) {
		for i, c := range g.columns {
			text := cell(c)
			b.WriteString(text)
			if i < len(g.columns)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)) + gap)
			}
		}
		b.WriteByte('\n')
	}
	line(func(c *gridColumn) string { return c.head })
	for row := range g.columns[0].cells {
		line(func(c *gridColumn) string { return c.cells[row] })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// terminalWidth is how many characters fit into a line where a person looks at w, else 0: a file or a pipe gets all of it.
func terminalWidth(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
