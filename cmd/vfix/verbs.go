// The verbs, and the answer to a command line that has none, or arguments or options that its verb does not accept.

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type verbRow struct {
	name    string
	command func(*output, engine) *cobra.Command
}

// verbTable is the verbs, in the order of use.
var verbTable = []verbRow{
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

// newRootCommand puts the verbs together: all of them, or only the one that a command line begins with, which starts
// faster.
func newRootCommand(out *output, e engine, first string) *cobra.Command {
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
	only := slices.ContainsFunc(verbTable, func(v verbRow) bool { return v.name == first })
	for _, v := range verbTable {
		if !only || v.name == first {
			root.AddCommand(v.command(out, e))
		}
	}
	root.SetOut(out.Out)
	root.SetErr(out.Err)
	root.SetHelpCommand(newHelpCommand(out))
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { out.help(helpText(cmd)) })
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		format := cmd.Flag(formatFlag)
		out.verb, out.json = cmd.Name(), format != nil && format.Value.String() == "json"
		return checkOptions(cmd)
	}
	build := buildVersion()
	root.Version = build.Version // with it cobra adds --version, for those who try it before the verb
	root.SetVersionTemplate(build.String())
	return root
}

// newVerb is the command of a verb with what it takes and its work.
func newVerb(use string, takes cobra.PositionalArgs, work func(context.Context, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Args: takes, RunE: func(cmd *cobra.Command, args []string) error { return work(cmd.Context(), args) }}
}

// flagError is a usage error in plain words.
func flagError(_ *cobra.Command, err error) error {
	text := strings.NewReplacer("shorthand flag", "option", "flag", "option").Replace(err.Error())
	text, _, _ = strings.Cut(text, ": strconv")
	return usagef("%s", text)
}

// exclusiveKey is the annotation of a command about options that do not go together.
const exclusiveKey = "exclusive"

// exclusive declares pairs of options of which only one makes sense, such as "push dry-run".
func exclusive(cmd *cobra.Command, pairs ...string) {
	cmd.Annotations = map[string]string{exclusiveKey: strings.Join(pairs, ",")}
}

// checkOptions rejects options that do not go together, a value that an option does not accept, and an empty one, which
// a script with an unset variable passes: using the default instead, such as the engine's own store, would not be what
// was meant.
func checkOptions(cmd *cobra.Command) (err error) {
	for pair := range strings.SplitSeq(cmd.Annotations[exclusiveKey], ",") {
		if one, other, _ := strings.Cut(pair, " "); pair != "" && cmd.Flags().Changed(one) && cmd.Flags().Changed(other) {
			return usagef("--%s and --%s do not go together: use one of them", one, other)
		}
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		got, text := []string{f.Value.String()}, f.Value.Type() == "string"
		if list, ok := f.Value.(pflag.SliceValue); ok {
			got, text = list.GetSlice(), true
		}
		if err == nil && text && (len(got) == 0 || slices.Contains(got, "")) {
			err = usagef("--%s is empty: give it a value, or omit it", f.Name)
		}
		for _, word := range got {
			if allowed := f.Annotations[choicesKey]; err == nil && allowed != nil {
				err = oneOf("--"+f.Name, word, allowed)
			}
		}
	})
	return err
}

// runRoot is vfix without a verb, or with an unknown one.
func runRoot(cmd *cobra.Command, args []string, out *output) error {
	if len(args) == 0 {
		out.Line(helpText(cmd))
		return &exit{status: statusUsage, msg: "no verb given", hint: "run 'vfix help', or start with 'vfix scan IMAGE'"}
	}
	err := &exit{status: statusUsage, msg: "no verb " + args[0] + ": want one of " + strings.Join(verbs(cmd), ", ")}
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

// arguments checks that a verb got from least to most arguments, most < 0 for any number, and no empty one; and that the
// first is one of the verb's ValidArgs, if it has some.
func arguments(what string, least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch valid := cmd.ValidArgs; {
		case len(args) < least && len(valid) > 0:
			return usagef("no %s given: want one of %s", what, strings.Join(valid, ", "))
		case len(args) < least:
			return usagef("no %s given", what)
		case most == 0 && len(args) > 0:
			return usagef("%s takes no argument: %s", cmd.Name(), strings.Join(args, " "))
		case most >= 0 && len(args) > most:
			return usagef("%d %ss given, want %d: %s", len(args), what, most, strings.Join(args, " "))
		case slices.Contains(args, ""):
			return usagef("%s %d is empty", what, slices.Index(args, "")+1)
		case len(valid) > 0 && len(args) > 0:
			return oneOf(what, args[0], valid)
		}
		return nil
	}
}

// noArguments is for verbs that have options alone.
var noArguments = arguments("", 0, 0)

func oneOf(what, got string, allowed []string) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	return usagef("%s %s: want one of %s", what, got, strings.Join(allowed, ", "))
}
