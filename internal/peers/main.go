// Command peers reads what the benchmark beside other proxies has measured and holds it against the bars that the project sets itself. Every ratio
// is the median over the blocks of all runs, each taken against its neighbour in the same round, so that what the machine did to one it did to all.
//
//	go run ./internal/peers FOLDER...    folders of figures (*.json), one for each run
//
// It exits with 1 when a bar is missed or was not measured.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: peers FOLDER...")
		os.Exit(2)
	}
	cells, err := readCells(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	if !report(os.Stdout, cells) {
		os.Exit(1)
	}
}

// readCells reads what was measured in all runs.
func readCells(folders []string) ([]cell, error) {
	var cells []cell
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s holds no figures", folder)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			var c cell
			if err := json.Unmarshal(text, &c); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			cells = append(cells, c)
		}
	}
	return cells, nil
}

// report prints each bar with its figure, and tells whether all of them hold.
func report(w io.Writer, cells []cell) bool {
	all := true
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "load\tfigure\tmeasured\tbar\t\t")
	for _, b := range bars() {
		value, ok := b.figure(pick(cells, b.load))
		word, measured := "", "not measured"
		if ok {
			measured = fmt.Sprintf("%.2f", value)
		}
		if !ok || !b.holds(value) {
			word, all = "MISSED", false
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t\n", b.load.name, b.what, measured, b.limit(), word)
	}
	_ = table.Flush()
	return all
}
