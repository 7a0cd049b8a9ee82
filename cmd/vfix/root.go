// vfix itself: the list of verbs, and the answer to a command line that has none, or an option that it does not accept.

package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vfix.dev/vfix/internal/textutil"
)

// verbTable is the verbs, in the order of use.
var verbTable = []struct {
	name    string
	command func(*output, engine) *cobra.Command
}{
	{"scan", newScanCommand},
	{"rebuild", newRebuildCommand},
	{"verify", newVerifyCommand},
	{"patch", newPatchCommand},
	{"layer", newLayerCommand},
	{"list", newListCommand},
	{"hotfix", newHotfixCommand},
	{"run", newRunCommand},
	{"install", newInstallCommand},
	{"uninstall", newUninstallCommand},
	{"nri", newNRICommand},
	{"doctor", newDoctorCommand},
	{"diagnose", newDiagnoseCommand},
	{"bench", newBenchCommand},
	{"version", newVersionCommand},
	{"completion", newCompletionCommand},
}

// newRootCommand puts the verbs together.
func newRootCommand(out *output, e engine) *cobra.Command {
	root := &cobra.Command{
		Use:   "vfix",
		Short: "Make legacy programs and images run where the vsyscall page is gone",
		Args:  cobra.ArbitraryArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return runRoot(cmd, args, out) },
		// main prints errors; the usage text would only hide them.
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
		SuggestionsMinimumDistance: 2, // letters that may be wrong
	}
	root.SetOut(out.Stdout)
	root.SetErr(out.Stderr)
	for _, v := range verbTable {
		root.AddCommand(v.command(out, e))
	}
	root.SetHelpCommand(newHelpCommand(out))
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { out.help(helpText(cmd)) })
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return checkOptions(cmd) }
	root.Flags().BoolP(versionFlag, "v", false, "print the version")
	return root
}

// versionFlag is an option of vfix itself, for those who try it before the verb.
const versionFlag = "version"

// flagError is a usage error in plain words, with the option that was meant if one is near.
func flagError(cmd *cobra.Command, err error) error {
	e := &usageError{verb: verbOf(cmd), msg: err.Error()}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		e.msg = "--" + invalid.GetFlag().Name + ": invalid value " + invalid.GetValue()
	}
	if noValue, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		e.msg = "option --" + noValue.GetFlag().Name + " has no value"
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	switch {
	case !ok:
	case unknown.GetSpecifiedShortnames() != "":
		e.msg = "unknown option -" + unknown.GetSpecifiedName()
	default:
		name := unknown.GetSpecifiedName()
		e.msg = "unknown option --" + name
		var options []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { options = append(options, f.Name) })
		if like := textutil.Nearest(name, options); len(like) > 0 {
			e.hint = "did you mean --" + strings.Join(like, " or --") + "?"
		}
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
			err = usagef(verbOf(cmd), "--%s is empty: give it a value, or omit it", f.Name)
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
	switch {
	case cmd.Flags().Changed(versionFlag):
		return out.build(printOptions{}, buildVersion())
	case len(args) == 0:
		out.Line(helpText(cmd))
		return &usageError{msg: "no verb given", hint: "run 'vfix help', or start with 'vfix scan IMAGE'"}
	}
	err := &usageError{msg: "no verb " + args[0] + ": want one of " + strings.Join(verbs(cmd), ", ")}
	if slices.Contains(topicNames(), args[0]) {
		err.hint = "run 'vfix help " + args[0] + "'"
	} else if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
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

// verbOf returns the name of a verb, "" for vfix itself.
func verbOf(cmd *cobra.Command) string {
	return strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()))
}

// arguments checks that a verb got from least to most arguments, most < 0 for any number, and no empty one.
func arguments(what string, least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch verb := verbOf(cmd); {
		case len(args) < least:
			return usagef(verb, "no %s given", what)
		case most == 0 && len(args) > 0:
			return usagef(verb, "%s takes no argument: %s", verb, strings.Join(args, " "))
		case most >= 0 && len(args) > most:
			return usagef(verb, "%d %ss given, want %d: %s", len(args), what, most, strings.Join(args, " "))
		case slices.Contains(args, ""):
			return usagef(verb, "%s %d is empty", what, slices.Index(args, "")+1)
		}
		return nil
	}
}

func noArguments(cmd *cobra.Command, args []string) error { return arguments("", 0, 0)(cmd, args) }
