// Package manual makes man pages (man(7)) from the commands and the texts of vfix help. Their date is
// SOURCE_DATE_EPOCH. Only the program that installs them needs it; vfix is built without it.
package manual

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vfix.dev/vfix/cmd/vfix/screen"
)

// width is how long a line of filled text is in the source of a page, in bytes.
const width = 78

// pageDate is SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/).
func pageDate() time.Time {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		panic("SOURCE_DATE_EPOCH: " + err.Error())
	}
	return time.Unix(seconds, 0).UTC()
}

// seeTopic is how help texts refer to a topic or a verb.
var seeTopic = regexp.MustCompile(`'vfix help ([a-z-]+)'`)

// Command is the page of a command in section 1. topics are those that it may refer to, help is the section
// that refers to them.
func Command(cmd *cobra.Command, help, status, version string, topics []string) []byte {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	use := strings.TrimSpace(strings.TrimSuffix(cmd.CommandPath(), cmd.Name()) + cmd.Use)
	var refer []string
	if cmd.HasParent() {
		refer = append(refer, "vfix(1)")
	} else {
		use = "vfix VERB [options] ..."
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() && c.Name() != "help" {
				refer = append(refer, "vfix-"+c.Name()+"(1)")
			}
		}
	}
	for _, m := range seeTopic.FindAllStringSubmatch(help, -1) {
		if to := "vfix-" + m[1] + "(7)"; slices.Contains(topics, m[1]) && !slices.Contains(refer, to) {
			refer = append(refer, to)
		}
	}
	page := head(name, "1", version, cmd.Short)
	page += ".SH SYNOPSIS\n.B " + escape(use) + "\n.SH DESCRIPTION\n" + text(cmd.Long)
	page += ".SH OPTIONS\n" + options(cmd)
	if status != "" {
		page += ".SH EXIT STATUS\n" + verbatim(status)
	}
	if cmd.Example != "" {
		page += ".SH EXAMPLES\n" + verbatim(cmd.Example)
	}
	page += ".SH SEE ALSO\n"
	for i, r := range refer {
		title, section, _ := strings.Cut(r, "(")
		end := map[bool]string{true: "\n", false: ",\n"}[i == len(refer)-1]
		page += ".BR " + escape(title) + " (" + section + end
	}
	return []byte(page)
}

// Topic is the page of a text of vfix help in section 7.
func Topic(name, short, text, version string) []byte {
	return []byte(head("vfix-"+name, "7", version, short) + ".SH DESCRIPTION\n" + verbatim(text))
}

func head(name, section, version, short string) string {
	return fmt.Sprintf(".TH %s %s %s \"vfix %s\" \"vfix manual\"\n.SH NAME\n%s \\- %s\n",
		escape(strings.ToUpper(name)), section, pageDate().Format("2006-01-02"), escape(version), escape(name), escape(short))
}

// options is a paragraph for each option that people see. The text has the default if it matters.
func options(cmd *cobra.Command) string {
	cmd.InitDefaultHelpFlag()
	cmd.Flags().Lookup("help").Usage = "show the help text"
	var b strings.Builder
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			b.WriteString(bold("-"+f.Shorthand) + ", ")
		}
		b.WriteString(bold("--" + f.Name))
		if value != "" && f.NoOptDefVal == "" {
			b.WriteString("=\\fI" + escape(value) + "\\fR")
		}
		b.WriteString("\n" + filled(usage))
	})
	return b.String()
}

func bold(s string) string { return "\\fB" + escape(s) + "\\fR" }

// text is a help text: what is indented there stays line by line as it is.
func text(s string) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(paragraph, "  ") {
			b.WriteString(verbatim(paragraph))
		} else {
			b.WriteString(filled(paragraph))
		}
	}
	return b.String()
}

var sentenceEnd = regexp.MustCompile(`([.?!]) `)

// filled is text in lines of the source that are not too long; a sentence begins a line.
func filled(s string) string {
	var b strings.Builder
	for _, sentence := range strings.Split(sentenceEnd.ReplaceAllString(strings.Join(strings.Fields(s), " "), "$1\n"), "\n") {
		for _, line := range screen.Wrap(escape(sentence), width) {
			b.WriteString(protected(line) + "\n")
		}
	}
	return b.String()
}

// escape writes text so that roff prints it in each locale. Characters outside ASCII are spelled out: groff
// omits a character that the reader's locale lacks, and not all readers know a substitute.
func escape(s string) string { return escapes.Replace(s) }

var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, `"`, `\(dq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`, "…", "...")

// protected is a line that roff does not mistake for a request.
func protected(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

// verbatim is text line by line as it is.
func verbatim(s string) string {
	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	for i, line := range lines {
		lines[i] = protected(strings.TrimRight(escape(line), " "))
	}
	return ".nf\n" + strings.Join(lines, "\n") + "\n.fi\n"
}
