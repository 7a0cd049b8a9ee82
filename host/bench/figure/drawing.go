// A drawing is polygons and words, written as SVG or, by x/image's rasterizer and the Go font, as PNG.

package figure

import (
	"bytes"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

const (
	fontSize = 13.0
	dots     = 2 // of a PNG for each pixel of an SVG
	// fonts are those that a viewer of the SVG may have.
	fonts = "Liberation Sans, Arial, Helvetica, sans-serif"
)

// anchor says which part of a text is at its position: the fonts of viewers differ in width.
type anchor string

const (
	atStart  anchor = ""
	atMiddle anchor = "middle"
	atEnd    anchor = "end"
)

type point struct{ x, y float64 }

type polygon struct {
	points []point
	colour color.RGBA
}

type words struct {
	at     point // the middle of the height of a capital
	anchor anchor
	text   string
}

type drawing struct {
	width, height float64
	polygons      []polygon
	words         []words
}

func (d *drawing) rect(x, y, w, h float64, c color.RGBA) {
	d.polygons = append(d.polygons, polygon{[]point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}, c})
}

func (d *drawing) line(a, b point, thick float64, c color.RGBA) {
	l := math.Hypot(b.x-a.x, b.y-a.y)
	dx, dy := (b.y-a.y)/l*thick/2, (a.x-b.x)/l*thick/2
	d.polygons = append(d.polygons, polygon{[]point{{a.x + dx, a.y + dy}, {b.x + dx, b.y + dy}, {b.x - dx, b.y - dy}, {a.x - dx, a.y - dy}}, c})
}

func (d *drawing) text(x, y float64, a anchor, text string) {
	d.words = append(d.words, words{point{x, y + fontSize*capital/2}, a, text})
}

// capital is the height of a capital, as a part of the font's size.
const capital = 0.72

// write returns the drawing in a format of Formats.
func (d *drawing) write(format string) ([]byte, error) {
	if format == ".png" {
		return d.png()
	}
	return d.svg(), nil
}

func (d *drawing) svg() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]g" height="%[2]g" viewBox="0 0 %[1]g %[2]g">`+"\n", d.width, d.height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	for _, p := range d.polygons {
		b.WriteString(`<path d="M`)
		for _, q := range p.points {
			fmt.Fprintf(&b, "%.1f,%.1f ", q.x, q.y)
		}
		fmt.Fprintf(&b, `Z" fill="#%02x%02x%02x"/>`+"\n", p.colour.R, p.colour.G, p.colour.B)
	}
	for _, w := range d.words {
		b.WriteString("<text ")
		if w.anchor != atStart {
			fmt.Fprintf(&b, `text-anchor="%s" `, w.anchor)
		}
		fmt.Fprintf(&b, `x="%.1f" y="%.1f" style="font-family:%s;font-size:%gpx">%s</text>`+"\n", w.at.x, w.at.y, fonts, fontSize, html.EscapeString(w.text))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (d *drawing) png() ([]byte, error) {
	img := image.NewRGBA(image.Rect(0, 0, int(d.width*dots), int(d.height*dots)))
	draw.Draw(img, img.Rect, image.White, image.Point{}, draw.Src)
	for _, p := range d.polygons {
		r := vector.NewRasterizer(img.Rect.Dx(), img.Rect.Dy())
		for i, q := range p.points {
			if x, y := float32(q.x*dots), float32(q.y*dots); i == 0 {
				r.MoveTo(x, y)
			} else {
				r.LineTo(x, y)
			}
		}
		r.ClosePath()
		r.Draw(img, img.Rect, image.NewUniform(p.colour), image.Point{})
	}
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: fontSize * dots, DPI: 72, Hinting: font.HintingNone})
	if err != nil {
		return nil, err
	}
	for _, w := range d.words {
		f := font.Drawer{Dst: img, Src: image.NewUniform(black), Face: face}
		back := map[anchor]float64{atMiddle: 0.5, atEnd: 1}[w.anchor] * float64(f.MeasureString(w.text))
		f.Dot = fixed.Point26_6{X: fixed.Int26_6(w.at.x*dots*64 - back), Y: fixed.Int26_6(w.at.y * dots * 64)}
		f.DrawString(w.text)
	}
	var out bytes.Buffer
	err = png.Encode(&out, img)
	return out.Bytes(), err
}
