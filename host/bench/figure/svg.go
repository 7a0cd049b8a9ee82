// The SVG with words that stay apart in any font: a viewer without the font that the drawing
// was measured with takes a wider one, and a word then grows away from what it belongs to.

package figure

import (
	"bytes"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// families are looked for in this order. The first ones have the same widths (they are made
// to), the last is whatever a viewer has.
const families = "font-family:Liberation Sans,Arial,Helvetica,sans-serif"

// anchor is the point of a word that stays where it is (SVG 2, text-anchor).
type anchor string

const (
	atStart  anchor = "start"
	atMiddle anchor = "middle"
	atEnd    anchor = "end"
)

// svgCanvas anchors words: gonum places each by the left end that it has in the font it
// measures with.
type svgCanvas struct {
	*vgsvg.Canvas
	anchors map[string]anchor // by word; atStart for others
	written []anchor          // of each text element, in order
}

// FillString implements vg.Canvas.
func (c *svgCanvas) FillString(f font.Face, at vg.Point, text string) {
	a := c.anchors[text]
	switch a {
	case atMiddle:
		at.X += f.Width(text) / 2
	case atEnd:
		at.X += f.Width(text)
	default:
		a = atStart
	}
	c.written = append(c.written, a)
	c.Canvas.FillString(f, at, text)
}

// drawSVG draws a plot; anchors are those of its words.
func drawSVG(p *plot.Plot, height vg.Length, anchors map[string]anchor) ([]byte, error) {
	c := &svgCanvas{Canvas: vgsvg.New(width, height), anchors: anchors}
	p.Draw(framed(draw.New(c)))
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, err
	}
	const element = "<text "
	parts := strings.Split(out.String(), element)
	for i, a := range c.written {
		if a != atStart {
			parts[i+1] = `text-anchor="` + string(a) + `" ` + parts[i+1]
		}
	}
	return []byte(strings.ReplaceAll(strings.Join(parts, element), "font-family:Liberation Sans", families)), nil
}
