// Package markdown makes plain text of the pages of docs/. It knows the part of Markdown that they
// use: headings, paragraphs, lists, tables, fenced code, links, images.
package markdown

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/internal/lazy"
)

// Width is how many columns help texts use at most.
const Width = 80

const (
	bodyIndent = 2
	CodeIndent = 4
	columnGap  = 2
)

var (
	image     = lazy.Regexp(`^!\[[^]]*\]\([^)]*\)$`)
	Link      = lazy.Regexp(`\[([^]]+)\]\(([^)]+)\)`)
	codeSpan  = lazy.Regexp("`([^`]+)`")
	bold      = lazy.Regexp(`\*\*([^*]+)\*\*`)
	Italic    = lazy.Regexp(`\B\*([A-Za-z][A-Za-z -]*)\*\B`)
	listHead  = lazy.Regexp(`^(?:-|[0-9]+\.) `)
	separator = lazy.Regexp(`^\|[-| :]+\|$`)
)

// Plain is a page of Markdown as it is printed.
func Plain(page string) string {
	var p plainPrinter
	for line := range strings.Lines(page) {
		p.line(strings.TrimRight(line, "\n"))
	}
	p.flush()
	return strings.TrimRight(p.b.String(), "\n") + "\n"
}

// Section is the section of a page whose heading of the second level has that anchor, from its
// heading to the next one of its level.
func Section(page, anchor string) (text string, found bool) {
	code := false
	var b strings.Builder
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if title, isHeading := strings.CutPrefix(line, "## "); isHeading && !code {
			if found {
				break
			}
			found = Anchor(title) == anchor
		}
		if found {
			b.WriteString(line)
		}
	}
	return b.String(), found
}

// Anchor is the anchor of a heading, as GitHub generates it.
func Anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(title))
}

// plainPrinter collects the lines of one block, and prints the block when it ends.
type plainPrinter struct {
	b     strings.Builder
	text  []string // of a paragraph or a list item
	table []string
	code  bool
}

func (p *plainPrinter) line(line string) {
	switch {
	case strings.HasPrefix(line, "```"):
		p.flush()
		if p.code {
			p.blank()
		}
		p.code = !p.code
	case p.code:
		p.put(CodeIndent, line)
	case line == "" || image().MatchString(line):
		p.flush()
		p.blank()
	case strings.HasPrefix(line, "#"):
		p.flush()
		p.blank()
		p.put(0, inline(strings.TrimLeft(line, "# "), true))
		p.blank()
	case strings.HasPrefix(line, "|"):
		p.table = append(p.table, line)
	case listHead().MatchString(line):
		p.flush()
		p.text = []string{line}
	default:
		p.text = append(p.text, line)
	}
}

func (p *plainPrinter) put(indent int, line string) {
	fmt.Fprintln(&p.b, strings.TrimRight(strings.Repeat(" ", indent)+line, " "))
}

// blank separates two blocks by one empty line.
func (p *plainPrinter) blank() {
	if s := p.b.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
		p.b.WriteByte('\n')
	}
}

// hang prints text after a head, its further lines indented below its first.
func (p *plainPrinter) hang(indent int, head, text string) {
	further := indent + runewidth.StringWidth(head)
	p.put(indent, head+strings.Join(screen.Wrap(text, Width-further), "\n"+strings.Repeat(" ", further)))
}

func (p *plainPrinter) flush() {
	if len(p.table) > 0 {
		p.rows()
		p.table = nil
	}
	if len(p.text) > 0 {
		text := strings.Join(p.text, "\n")
		head := listHead().FindString(text)
		p.hang(bodyIndent, head, inline(text[len(head):], false))
		p.text = nil
	}
}

// rows prints a table, its heading in capitals as in vfix's other tables. If it is too
// wide, the widest columns are wrapped.
func (p *plainPrinter) rows() {
	var rows [][]string
	for _, line := range p.table {
		if !separator().MatchString(line) {
			rows = append(rows, tableCells(line))
		}
	}
	for i, cell := range rows[0] {
		rows[0][i] = strings.ToUpper(cell)
	}
	width := columnWidths(rows)
	for _, cells := range rows {
		lines := make([]string, 1)
		start := 0
		for i, cell := range cells {
			for n, text := range screen.Wrap(cell, width[i]) {
				if n == len(lines) {
					lines = append(lines, "")
				}
				lines[n] = screen.Pad(lines[n], start, false) + text
			}
			start += width[i] + columnGap
		}
		for _, line := range lines {
			p.put(bodyIndent, line)
		}
	}
}

// columnWidths gives each column the width that it needs. While that is too much, the widest column that can
// be wrapped at a space gets less.
func columnWidths(rows [][]string) []int {
	width, least := make([]int, len(rows[0])), make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, cell := range cells {
			width[i] = max(width[i], runewidth.StringWidth(cell))
			for _, word := range strings.Fields(cell) {
				least[i] = max(least[i], runewidth.StringWidth(word))
			}
		}
	}
	for total := bodyIndent + columnGap*(len(width)-1) + sum(width); total > Width; total-- {
		widest := -1
		for i := range width {
			if width[i] > least[i] && (widest < 0 || width[i] > width[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		width[widest]--
	}
	return width
}

func sum(list []int) (n int) {
	for _, i := range list {
		n += i
	}
	return n
}

// tableCells are the cells of a row; \| in one is a bar.
func tableCells(line string) []string {
	const bar = "\x00"
	line = strings.Trim(strings.ReplaceAll(line, `\|`, bar), "|")
	var cells []string
	for _, cell := range strings.Split(line, "|") {
		cell = strings.TrimSpace(strings.ReplaceAll(cell, bar, "|"))
		whole := codeSpan().FindString(cell) == cell
		cells = append(cells, inline(cell, whole))
	}
	return cells
}

// inline removes the markup from text. Code with a space in it gets quotation marks, unless
// it is bare; a link to another page names the topic.
func inline(text string, bare bool) string {
	text = Link().ReplaceAllStringFunc(text, func(s string) string {
		m := Link().FindStringSubmatch(s)
		target, _, _ := strings.Cut(m[2], "#")
		topic, isPage := strings.CutSuffix(target, ".md")
		switch {
		case target == "" || strings.Trim(m[1], "`") == strings.TrimPrefix(target, "../"):
			return m[1]
		case isPage && !strings.Contains(topic, "/"):
			return m[1] + " ('vfix help " + topic + "')"
		}
		return m[1] + " (" + strings.TrimPrefix(m[2], "../") + ")"
	})
	text = codeSpan().ReplaceAllStringFunc(text, func(s string) string {
		if s = strings.Trim(s, "`"); strings.Contains(s, " ") && !bare {
			return "'" + s + "'"
		}
		return s
	})
	return Italic().ReplaceAllString(bold().ReplaceAllString(text, "$1"), "$1")
}
