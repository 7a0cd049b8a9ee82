package figure

import (
	"bytes"
	"image/color"
	"image/png"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/tests/recorded"
)

var (
	ways      = []string{"vdso", "page", "healed"}
	functions = []string{"time", "gettimeofday", "getcpu"}
	some      = []Measured{
		{Way: "vdso", Function: "time", Nanoseconds: 1.25, Least: 1.2, Most: 2.5},
		{Way: "vdso", Function: "getcpu", Nanoseconds: 12.5},
		{Way: "page", Function: "time", Nanoseconds: 431, Least: 431, Most: 431},
		{Way: "healed", Function: "time"},
	}
)

func TestDrawSVG(t *testing.T) {
	b, err := Draw(".svg", "A title", ways, functions, some)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "A title", "nanoseconds a call", ">vdso<", ">page<", ">1.25<", ">12.5<", ">431<", ">gettimeofday<"} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("no %q in the drawing", want)
		}
	}
	if bytes.Contains(b, []byte("healed")) {
		t.Error("healed was not measured, and is drawn")
	}
	recorded.Text(t, "bars", string(b))
	again, err := Draw(".svg", "A title", ways, functions, some)
	if err != nil || !bytes.Equal(b, again) {
		t.Errorf("drawn again it differs: %v", err)
	}
}

func TestDrawPNG(t *testing.T) {
	b, err := Draw(".png", "A title", ways, functions, some)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[color.Color]bool{}
	for x := range img.Bounds().Dx() {
		for y := range img.Bounds().Dy() {
			seen[color.RGBAModel.Convert(img.At(x, y))] = true
		}
	}
	title := false
	for x := img.Bounds().Dx() / 4; x < img.Bounds().Dx()*3/4; x++ {
		for y := range int(row * 2 * dots) {
			title = title || color.RGBAModel.Convert(img.At(x, y)) == black
		}
	}
	if !title {
		t.Error("no title in the middle")
	}
	for i, function := range functions {
		if !seen[colours[i]] {
			t.Errorf("nothing in the colour of %s", function)
		}
	}
}

func TestDrawNothing(t *testing.T) {
	if _, err := Draw(".svg", "", ways, functions, some[3:]); err == nil {
		t.Error("nothing was measured: want an error")
	}
}

func TestNumber(t *testing.T) {
	for ns, want := range map[float64]string{0.5: "0.50", 9.99: "9.99", 10: "10.0", 99.9: "99.9", 100: "100", 2345.6: "2346"} {
		if got := Number(ns); got != want {
			t.Errorf("%g: got %s, want %s", ns, got, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for name, want := range map[string]string{"a.svg": ".svg", "b/C.PNG": ".png", "x.pdf": "", "svg": "", "": ""} {
		got, err := Format(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", name, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), ".svg, .png") {
			t.Errorf("%q: %v does not say what there is", name, err)
		}
	}
}

// Bars of every drawing begin at one origin, so that two drawings can be compared; a value below it has no length. A title may
// have further lines.
func TestOrigin(t *testing.T) {
	for ns, left := range map[float64]string{0.4: "1", 5: "1", 400: "1"} {
		b, err := Draw(".svg", "A title\nLinux 1.2, vsyscall=xonly", ways, functions, []Measured{{Way: "page", Function: "time", Nanoseconds: ns}})
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`>([0-9.]+)</text>`).FindSubmatch(b)
		if m == nil || string(m[1]) != left || !bytes.Contains(b, []byte(">Linux 1.2, vsyscall=xonly<")) || bytes.Contains(b, []byte("-0.")) {
			t.Errorf("%g ns: the scale begins at %s:\n%s", ns, m, b)
		}
	}
}

// Words keep their place in a font that is wider than the one measured with: those
// that end beside something are anchored at their end.
func TestSVGAnchors(t *testing.T) {
	b, err := Draw(".svg", "A title", ways, functions, some)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"vdso": "end", "page": "end", "time": "end", "gettimeofday": "end", "getcpu": "end",
		"A title": "middle", "nanoseconds a call (logarithmic)": "middle", "1.25": "", "431": "",
	}
	for _, m := range regexp.MustCompile(`(?s)<text (text-anchor="(\w+)" )?x="[^"]*"[^>]*font-family:([^;]*);[^>]*>([^<]*)<`).FindAllStringSubmatch(string(b), -1) {
		if !strings.HasSuffix(m[3], "sans-serif") {
			t.Errorf("%s: got the fonts %s, want a generic one at the end", m[4], m[3])
		}
		if a, ok := want[m[4]]; ok && a != m[2] {
			t.Errorf("%s: got the anchor %q, want %q", m[4], m[2], a)
		}
		delete(want, m[4])
	}
	if len(want) > 0 {
		t.Errorf("not in the drawing: %v", want)
	}
}

// A line rises with its values, and names that have a meaning in SVG are text.
func TestLines(t *testing.T) {
	for _, format := range Formats {
		b, err := Lines(format, "Rebuild", "MB", "s", []Line{{"a<b", []float64{10, 100, 1000}, []float64{0.1, 1, 10}}, {"flat", []float64{10, 1000}, []float64{2, 2}}})
		if err != nil {
			t.Fatal(err)
		}
		if format == ".svg" && (!bytes.Contains(b, []byte(">a&lt;b<")) || !bytes.Contains(b, []byte(">1000<")) || !bytes.Contains(b, []byte(">Rebuild: s<"))) {
			t.Errorf("got %s", b)
		}
		if format == ".svg" {
			recorded.Text(t, "lines", string(b))
		}
	}
	x := newAxis(10, 1000, 0, 200)
	if got := []float64{x.at(10), x.at(100), x.at(1000)}; !slices.Equal(got, []float64{0, 100, 200}) {
		t.Errorf("got %v", got)
	}
	x = newAxis(10, 10, 0, 200)
	if got := []float64{x.at(10), x.at(100)}; !slices.Equal(got, []float64{0, 200}) {
		t.Errorf("one value: got %v", got)
	}
	for _, bad := range []Line{{}, {"", []float64{1}, nil}, {"", []float64{1}, []float64{0}}, {"", []float64{0}, []float64{1}}, {"", []float64{1, 2}, []float64{1}}} {
		if _, err := Lines(".svg", "", "", "", []Line{bad}); err == nil {
			t.Errorf("%v: want an error", bad)
		}
	}
}
