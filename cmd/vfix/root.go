// vfix itself: the list of verbs, and the answer to a command line without one.

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vfix.dev/vfix/internal/lazy"
	"vfix.dev/vfix/internal/nearest"
)

// verbTable is the verbs, in the order of use.
var verbTable = []struct {
	name    string
	command func(*output, engine) *cobra.Command
}{
	{"scan", newScanCommand},
	{"list", newListCommand},
	{"rebuild", newRebuildCommand},
	{"patch", newPatchCommand},
	{"verify", newVerifyCommand},
	{"layer", newLayerCommand},
	{"hotfix", newHotfixCommand},
	{"run", newRunCommand},
	{"nri", newNRICommand},
	{"doctor", newDoctorCommand},
	{"diagnose", newDiagnoseCommand},
	{"bench", newBenchCommand},
	{"install", newInstallCommand},
	{"uninstall", newUninstallCommand},
	{"version", newVersionCommand},
	{"completion", newCompletionCommand},
}

// neededFor names the verbs that a command line needs: the one that it begins with, or none, which means all.
// Making all verbs with their options takes as long as starting a small program.
func neededFor(args []string) []string {
	for _, v := range verbTable {
		if len(args) > 0 && args[0] == v.name && v.name != "completion" { // which completes all
			return args[:1]
		}
	}
	return nil
}

// newRootCommand puts the verbs together: only those named, or all.
func newRootCommand(out *output, e engine, only ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "vfix",
		Short: "Make legacy programs and images run where the vsyscall page is gone",
		Args:  cobra.ArbitraryArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return runRoot(cmd, args, out) },
		// main prints errors; the usage text would only hide them.
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetOut(out.Stdout)
	root.SetErr(out.Stderr)
	for _, v := range verbTable {
		if len(only) == 0 || slices.Contains(only, v.name) {
			root.AddCommand(v.command(out, e))
		}
	}
	root.SetHelpCommand(newHelpCommand(out))
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { out.help(helpText(cmd)) })
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return checkOptions(cmd) }
	root.Flags().BoolVarP(new(bool), versionFlag, "v", false, "print the version")
	return root
}

// versionFlag is an option of vfix itself, for those who try it before the verb.
const versionFlag = "version"

// goError matches the wording of the flag library.
var goError = lazy.Regexp(`^invalid argument ("(?:[^"\\]|\\.)*") for "([^"]*)" flag: .*`)

var unknownLetter = lazy.Regexp(`^unknown shorthand flag: '(.)' in -.*`)

var noValue = lazy.Regexp(`^flag needs an argument: (?:'.' in )?(-.+)`)

// flagError is a usage error in plain words, with the option that was meant if one is near.
func flagError(cmd *cobra.Command, err error) error {
	e := &usageError{verb: verbOf(cmd), msg: err.Error()}
	if m := goError().FindStringSubmatch(e.msg); m != nil {
		e.msg = fmt.Sprintf("%s: invalid value %s", m[2], m[1])
		if flag := cmd.Flags().Lookup(m[2][strings.LastIndex(m[2], "--")+len("--"):]); flag != nil {
			e.msg += ": want " + map[string]string{"int": "a whole number", "duration": "a time such as 30s or 5m", "bool": "true or false"}[flag.Value.Type()]
		}
	}
	e.msg = unknownLetter().ReplaceAllString(e.msg, "unknown option -$1")
	e.msg = noValue().ReplaceAllString(e.msg, "option $1 has no value")
	name, unknown := strings.CutPrefix(e.msg, "unknown flag: --")
	if !unknown {
		return e
	}
	e.msg = "unknown option --" + name
	var options []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { options = append(options, f.Name) })
	like := nearest.Of(name, options)
	for _, o := range options {
		if len(name) > 1 && strings.HasPrefix(o, name) && !slices.Contains(like, o) {
			like = append(like, o)
		}
	}
	if len(like) > 0 {
		e.hint = "did you mean --" + strings.Join(like, " or --") + "?"
	}
	return e
}

// checkOptions rejects a value that an option does not accept, and an empty one, which a script with an unset
// variable passes: using the default instead, such as the engine's own store, would not be what was meant.
func checkOptions(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		got, text := []string{f.Value.String()}, f.Value.Type() == "string"
		if list, ok := f.Value.(pflag.SliceValue); ok {
			got, text = list.GetSlice(), true
		}
		if err == nil && text && (len(got) == 0 || slices.Contains(got, "")) {
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand
			}
			err = usagef(verbOf(cmd), "%s is empty: give it a value, or omit it", name)
		}
		for _, word := range got {
			if allowed := f.Annotations[choicesKey]; err == nil && allowed != nil {
				err = oneOf(verbOf(cmd), "--"+f.Name, word, allowed)
			}
		}
	})
	return err
}

// runRoot is vfix without a verb, or with an unknown one.
func runRoot(cmd *cobra.Command, args []string, out *output) error {
	if cmd.Flags().Changed(versionFlag) {
		return out.build(printOptions{}, buildVersion())
	}
	if len(args) == 0 {
		out.Line(helpText(cmd))
		return &usageError{msg: "no verb given", hint: "run 'vfix help', or start with 'vfix scan IMAGE'"}
	}
	err := &usageError{msg: "no verb " + args[0] + ": want one of " + strings.Join(verbs(cmd), ", ")}
	if slices.Contains(topicNames(), args[0]) {
		err.hint = "run 'vfix help " + args[0] + "'"
	}
	cmd.SuggestionsMinimumDistance = 2 // letters that may be wrong
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		err.hint = "did you mean 'vfix " + strings.Join(like, "' or 'vfix ") + "'?"
	}
	return err
}

// verbs returns the names of the verbs in alphabetical order.
func verbs(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// verbOf returns the words after vfix, "" for vfix itself.
func verbOf(cmd *cobra.Command) string {
	return strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()))
}

// atMost checks that a verb got at most n arguments.
func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef(verbOf(cmd), "%d %ss given, want %d at most: %s", len(args), what, n, strings.Join(args, " "))
		}
		return nil
	}
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(verbOf(cmd), "%s takes no argument: %s", cmd.Name(), strings.Join(args, " "))
	}
	return nil
}
