// The verb help, its topics, and the text that --help prints. A topic is a page of docs/, or a section of one by its
// anchor; it is printed as it is written, in Markdown.

package main

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/docs"
	"vfix.dev/vfix/internal/textutil"
)

func newHelpCommand(out *output) *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB|TOPIC]",
		Short: "Explain a verb or a topic",
		Long:  "Explain a verb or a topic; without either, list them.",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return append(verbs(cmd.Root()), topicNames()...), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runHelp(cmd.Root(), args, out) },
	}
}

func runHelp(root *cobra.Command, args []string, out *output) error {
	if len(args) > 1 {
		return usagef("help explains one verb or topic, not %d: %s", len(args), strings.Join(args, " "))
	}
	text, found := rootHelp(), true
	if len(args) == 1 {
		if i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == args[0] }); i >= 0 {
			text = helpText(root.Commands()[i])
		} else if text, found = topic(args[0]); !found {
			return usagef("no verb or topic %s: the topics are %s", args[0], strings.Join(topicNames(), ", "))
		}
	}
	out.help(text)
	return nil
}

// jsonSchema is the topic that is a schema.
const jsonSchema = "json-schema"

// sharedOptions is the topic about options, which is made from them.
const sharedOptions = "options"

// topicNames are the pages, in the order of the index of docs/.
func topicNames() (names []string) {
	for _, row := range regexp.MustCompile(`(?m)^\| \[[^]]+\]\(([a-z-]+)\.md\)`).FindAllStringSubmatch(page("README"), -1) {
		names = append(names, row[1])
	}
	return append(names, sharedOptions, jsonSchema)
}

// page is the Markdown of a page, "" without a page of that name.
func page(name string) string {
	b, err := fs.ReadFile(docs.Pages, name+".md")
	if err != nil {
		return ""
	}
	return string(b)
}

// topic is the text of a page, or of the section of a page with that anchor.
func topic(name string) (text string, found bool) {
	switch name {
	case jsonSchema:
		return docs.Schema, true
	case sharedOptions:
		return optionsHelp(), true
	}
	if text := page(name); text != "" {
		return text, true
	}
	for _, p := range topicNames() {
		if text, found := section(page(p), name); found {
			return text, true
		}
	}
	return "", false
}

// section is the part of a page from the heading with that anchor to the next heading of its level or a higher one. A
// heading has two marks at least: # alone is also a comment in a block of code.
func section(page, anchor string) (text string, found bool) {
	var b strings.Builder
	level := 0 // of the section, once it is found
	for line := range strings.Lines(page) {
		marks, title, _ := strings.Cut(line, " ")
		if len(marks) > 1 && strings.Trim(marks, "#") == "" {
			switch {
			case level > 0 && len(marks) <= level:
				return b.String(), true
			case level == 0 && anchorOf(title) == anchor:
				level = len(marks)
			}
		}
		if level > 0 {
			b.WriteString(line)
		}
	}
	return b.String(), level > 0
}

// notInAnchor are the characters of a heading that its anchor does not have.
var notInAnchor = textutil.LazyRegexp("[^a-z0-9 -]")

func anchorOf(title string) string {
	title = notInAnchor().ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
	return strings.ReplaceAll(title, " ", "-")
}

// helpWidth is how many columns a text of help may take.
const helpWidth = 80

// helpOf is the text of a verb's help, docs/help/VERB.md: what it does in a line, and all of it, in Markdown.
func helpOf(verb string) (short, text string) {
	_, text, _ = strings.Cut(page("help/"+verb), "\n\n") // behind the heading
	short, _, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(short, "."), text
}

// plain is Markdown without its fences; code is indented.
func plain(markdown string) string {
	var b strings.Builder
	indent := ""
	for line := range strings.Lines(markdown) {
		switch {
		case !strings.HasPrefix(line, "```"):
			b.WriteString(indent + line)
		case indent == "":
			indent = "  "
		default:
			indent = ""
		}
	}
	return b.String()
}

func helpText(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return rootHelp()
	}
	_, text := helpOf(cmd.Name())
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: vfix %s\n\n%s", cmd.Use, plain(text)) // UseLine adds "[flags]", which vfix does not use
	var own pflag.FlagSet
	common := ""
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, isShared := f.Annotations[sharedKey]; isShared {
			common += " --" + f.Name
		} else if f.Name != "help" {
			own.AddFlag(f)
		}
	})
	if own.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nOptions:\n%s\n", usages(&own))
	}
	if common != "" {
		fmt.Fprintf(&b, "\nAlso%s:\nsee 'vfix help options'.\n", common)
	}
	return b.String()
}

func rootHelp() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(docOpening) + "\n\nUsage: vfix VERB [options] ...\n\nVerbs:\n")
	for _, v := range verbTable {
		short, _ := helpOf(v.name)
		fmt.Fprintf(&b, "  %-12s %s\n", v.name, short)
	}
	b.WriteString("\n'vfix VERB --help' lists the options of a verb, 'vfix help TOPIC' prints a page:\n")
	for _, line := range screen.Wrap(strings.Join(topicNames(), ", "), helpWidth-len(screen.Gap)) {
		b.WriteString(screen.Gap + line + "\n")
	}
	return b.String()
}

const docOpening = `
vfix makes legacy x86-64 programs run at full speed on kernels without the
vsyscall page. On such a kernel, containers of redis:2.8.22, CentOS 6 or Debian
7 and old static programs exit with status 139 and an empty log.

  vfix scan redis:2.8.22                  check whether it is affected
  docker run $(vfix rebuild redis:2.8.22) build the fixed image and run it
`

// help prints a requested text.
func (o *output) help(text string) { fmt.Fprintln(o.Out, strings.TrimRight(text, "\n")) }
