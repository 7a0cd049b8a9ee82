//go:build share

// What make install puts into share/ beside the program: man pages, made from the commands and
// the topics of help, and completions. Releases are built without this file and what it needs;
// deploy/release/share runs it, `go run -tags share ./cmd/vfix DIR VERSION`. The date of the pages
// is SOURCE_DATE_EPOCH.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

const manual = "vfix manual"

// completions are where the shells look for them, below share/.
var completions = map[string]string{
	"bash": "bash-completion/completions/vfix",
	"fish": "fish/vendor_completions.d/vfix.fish",
	"zsh":  "zsh/site-functions/_vfix",
}

func init() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run -tags share ./cmd/vfix DIR VERSION")
		os.Exit(statusUsage)
	}
	err := writeManual(filepath.Join(os.Args[1], "man"), os.Args[2])
	for shell, path := range completions {
		err = errors.Join(err, writeCompletion(shell, filepath.Join(os.Args[1], path)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(statusError)
	}
	os.Exit(statusDone)
}

// writeCompletion writes what `vfix completion SHELL` prints.
func writeCompletion(shell, path string) error {
	var script bytes.Buffer
	if status := vfix([]string{"completion", shell}, &script, os.Stderr, theEngine); status != statusDone {
		return fmt.Errorf("vfix completion %s: exit status %d", shell, status)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, script.Bytes(), 0o644)
}

// writeManual writes a page for vfix, for each verb and for each topic.
func writeManual(dir, version string) error {
	for _, section := range []string{"man1", "man7"} {
		if err := os.MkdirAll(filepath.Join(dir, section), 0o755); err != nil {
			return err
		}
	}
	root := newRootCommand(newOutput(os.Stdout, os.Stderr), theEngine)
	root.Long = docOpening
	_, statuses, _ := strings.Cut(plainText(page("exit-status")), "\n") // behind its title
	root.Annotations = exits(statuses)
	for _, cmd := range append(root.Commands(), root) {
		page, err := manPage(cmd, version)
		if err != nil {
			return fmt.Errorf("%s: %w", cmd.Name(), err)
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		if err := os.WriteFile(filepath.Join(dir, "man1", name), page, 0o644); err != nil {
			return err
		}
	}
	for _, t := range topics {
		if t.name == "json-schema" { // for programs
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "man7", "vfix-"+t.name+".7"), topicPage(t, version), 0o644); err != nil {
			return err
		}
	}
	return nil
}

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

// manPage is the page of a command: what cobra makes of it, with the exit statuses before the
// examples and the topics that it refers to at the end.
func manPage(cmd *cobra.Command, version string) ([]byte, error) {
	cmd.DisableAutoGenTag, cmd.DisableFlagsInUseLine = true, true
	refer := seeTopic.FindAllStringSubmatch(helpText(cmd), -1)
	if !cmd.HasParent() {
		cmd.Use = "vfix VERB [options] ..."
	}
	cmd.Long = markdown(cmd.Long)
	status := cmd.Annotations[exitAnnotation]
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	var b bytes.Buffer
	date := pageDate()
	header := doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Date: &date, Source: "vfix " + version, Manual: manual}
	if err := doc.GenMan(cmd, &header, &b); err != nil {
		return nil, err
	}
	page := b.String()
	if status != "" {
		at := len(page)
		for _, section := range []string{"\n.SH SEE ALSO", "\n.SH EXAMPLE"} {
			if i := strings.Index(page, section); i >= 0 {
				at = i + 1
			}
		}
		page = page[:at] + ".SH EXIT STATUS\n" + verbatim(status) + page[at:]
	}
	for _, m := range refer {
		if reference := "\\fBvfix-" + m[1] + "(7)\\fP"; isTopic(m[1]) && !strings.Contains(page, reference) {
			page = strings.TrimRight(page, "\n") + ", " + reference + "\n"
		}
	}
	return []byte(page), nil
}

func isTopic(name string) bool {
	for _, t := range topics {
		if t.name == name {
			return name != "json-schema"
		}
	}
	return false
}

func topicPage(t topic, version string) []byte {
	head := fmt.Sprintf("%% \"VFIX-%s\" \"7\" \"%s\" \"vfix %s\" \"%s\"\n# NAME\nvfix-%s \\- %s\n\n",
		strings.ToUpper(t.name), pageDate().Format("Jan 2006"), version, manual, t.name, t.short)
	return append(md2man.Render([]byte(head)), ".SH DESCRIPTION\n"+verbatim(t.text())...)
}

// markdown makes Markdown of a help text: what is indented there is code.
func markdown(text string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(strings.Trim(text, "\n") + "\n") {
		indented := strings.HasPrefix(line, "  ")
		if indented != code && strings.TrimSpace(line) != "" {
			b.WriteString(map[bool]string{true: "\n```\n", false: "```\n\n"}[indented])
			code = indented
		}
		if !code {
			line = special.ReplaceAllString(line, `\$0`)
		}
		b.WriteString(line)
	}
	if code {
		b.WriteString("```\n")
	}
	return b.String()
}

// special are the characters that Markdown would take for its own.
var special = regexp.MustCompile("[\\\\`*_<>#\\[\\]]")

// verbatim is text in roff, line by line as it is.
func verbatim(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`).Replace(strings.Trim(text, "\n"))
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return ".nf\n" + strings.Join(lines, "\n") + "\n.fi\n"
}
