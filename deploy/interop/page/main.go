// Command page draws a line of text as a page for an engine to read, a PNG on standard output.
package main

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

func main() {
	if err := write(strings.Join(os.Args[1:], " ")); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

func write(line string) error {
	page := image.NewGray(image.Rect(0, 0, 1200, 400))
	draw.Draw(page, page.Bounds(), image.White, image.Point{}, draw.Src)
	letters, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return err
	}
	face, err := opentype.NewFace(letters, &opentype.FaceOptions{Size: 64, DPI: 72})
	if err != nil {
		return err
	}
	(&font.Drawer{Dst: page, Src: image.NewUniform(color.Black), Face: face, Dot: fixed.P(80, 200)}).DrawString(line)
	return png.Encode(os.Stdout, page)
}
