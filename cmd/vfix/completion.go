// The verb completion.

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var shells = []string{"bash", "fish", "zsh"}

func newCompletionCommand(out *output, _ engine) *cobra.Command {
	cmd := newVerb("completion bash|fish|zsh", arguments("SHELL", 1, 1), nil)
	cmd.ValidArgs = shells
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch root := cmd.Root(); args[0] {
		case "bash":
			fmt.Fprintln(out.Out, "# vfix completion for bash; needs the package bash-completion.")
			return root.GenBashCompletionV2(out.Out, true)
		case "fish":
			return root.GenFishCompletion(out.Out, true)
		default:
			return root.GenZshCompletion(out.Out)
		}
	}
	return cmd
}

// describe has shells show what each verb does, and descriptions of options without the back quotes that mark the name of a
// value for the help.
func describe(cmd *cobra.Command) {
	if short, _ := helpOf(cmd.Name()); short != "" {
		cmd.Short = short
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	for _, c := range cmd.Commands() {
		describe(c)
	}
}
