// The verb help and its topics, and the text that --help prints.

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/markdown"
	"vfix.dev/vfix/docs"
	"vfix.dev/vfix/internal/lazy"
)

// topic is one text of vfix help that does not describe a verb.
type topic struct {
	name  string
	short string
	text  func() string
}

// topics are the pages of docs/ and some of their sections, in the order of the index.
var topics = sync.OnceValue(func() []topic {
	return append(pages(), topic{"json-schema", "the JSON output as a JSON Schema", func() string { return docs.Schema }})
})

// indexRow is a row of the index: the file of a page, the section if the row is about one, and a
// description.
var indexRow = lazy.Regexp(`(?m)^\| \[[^]]+\]\(([a-z-]+)\.md(?:#([a-z-]+))?\) \| (.+) \|$`)

func pages() (list []topic) {
	for _, row := range indexRow().FindAllStringSubmatch(page("README"), -1) {
		list = append(list, topic{cmp.Or(row[2], row[1]), row[3], func() string { return markdown.Plain(source(row[1], row[2])) }})
	}
	return list
}

// source is the Markdown of a page, or of its section with that anchor.
func source(name, anchor string) string {
	if anchor == "" {
		return page(name)
	}
	text, found := markdown.Section(page(name), anchor)
	if !found {
		panic("docs/" + name + ".md has no section " + anchor) // the index names one that does not exist
	}
	return text
}

func page(name string) string {
	b, err := docs.Pages.ReadFile(name + ".md")
	if err != nil {
		panic(err) // the index names a page that does not exist
	}
	return string(b)
}

// exitAnnotation is where a verb keeps the text of its exit statuses.
const exitAnnotation = "exit"

func exits(text string) map[string]string { return map[string]string{exitAnnotation: text} }

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
	if len(args) == 0 {
		out.help(helpText(root))
		return nil
	}
	if len(args) > 1 {
		return usagef("", "help explains one verb or topic, not %d: %s", len(args), strings.Join(args, " "))
	}
	for _, t := range topics() {
		if t.name == args[0] {
			out.help(t.text())
			return nil
		}
	}
	if i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == args[0] }); i >= 0 {
		out.help(helpText(root.Commands()[i]))
		return nil
	}
	return usagef("", "no verb or topic %s: the topics are %s", args[0], strings.Join(topicNames(), ", "))
}

func topicNames() (names []string) {
	for _, t := range topics() {
		names = append(names, t.name)
	}
	return names
}

func helpText(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return rootHelp(cmd)
	}
	// UseLine adds "[flags]", which vfix does not use.
	var b strings.Builder
	use := strings.TrimSpace(verbOf(cmd.Parent()) + " " + cmd.Use)
	fmt.Fprintf(&b, "Usage: vfix %s\n\n%s\n", use, strings.TrimSpace(cmd.Long))
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	cmd.InitDefaultHelpFlag()
	cmd.Flags().Lookup("help").Usage = "show this text"
	fmt.Fprintf(&b, "\nOptions:\n%s\n", strings.TrimRight(cmd.LocalFlags().FlagUsagesWrapped(markdown.Width), "\n"))
	if text := cmd.Annotations[exitAnnotation]; text != "" {
		fmt.Fprintf(&b, "\nExit status:\n%s\n", strings.TrimRight(text, "\n"))
	}
	return b.String()
}

func rootHelp(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(docOpening))
	b.WriteString("\n\nUsage: vfix VERB [options] ...\n\nVerbs:\n")
	for _, v := range verbTable {
		if c, _, err := root.Find([]string{v.name}); err == nil && c.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-14s %s\n", v.name, c.Short)
		}
	}
	fmt.Fprintf(&b, "  %-14s %s\n", "help", newHelpCommand(nil).Short)
	b.WriteString("\nTopics:\n")
	for _, t := range topics() {
		fmt.Fprintf(&b, "  %-19s %s\n", t.name, t.short)
	}
	b.WriteString("\nFor details run vfix VERB --help or vfix help TOPIC.\n")
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
func (o *output) help(text string) { fmt.Fprintln(o.Stdout, strings.TrimRight(text, "\n")) }
