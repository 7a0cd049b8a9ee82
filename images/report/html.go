// The report as one HTML page that needs nothing else. It grows at its end: the rows are the last
// part but one, and a script counts them. A page that was cut off is one as well.

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"sync"

	"github.com/docker/go-units"

	"vfix.dev/vfix/images/outcome"
)

//go:embed page.html
var page string

// pages are the parts of the page: "head", "row" and "tail".
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"size": size, "class": class, "name": nameOf, "digest": digestOf}).Parse(page))
})

// class is a status as the name of a class.
func class(status outcome.Status) string { return strings.ReplaceAll(string(status), " ", "-") }

// nameOf and digestOf are the parts of a reference before and after its @.
func nameOf(reference string) string   { name, _, _ := strings.Cut(reference, "@"); return name }
func digestOf(reference string) string { _, digest, _ := strings.Cut(reference, "@"); return digest }

// size writes a number of bytes for people; nothing for 0.
func size(n int64) string {
	switch {
	case n == 0:
		return ""
	case n < 1024:
		return fmt.Sprintf("%d B", n)
	}
	return units.CustomSize("%.1f %s", float64(n), 1024, []string{"B", "KiB", "MiB", "GiB"})
}
