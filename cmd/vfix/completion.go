// The verb completion.

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var shells = []string{"bash", "fish", "zsh"}

func newCompletionCommand(out *output, _ engine) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|fish|zsh",
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("completion", "which shell: want one of %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				fmt.Fprintln(out.Stdout, "# vfix completion for bash; needs the package bash-completion.")
				return root.GenBashCompletionV2(out.Stdout, true)
			case "fish":
				return root.GenFishCompletion(out.Stdout, true)
			default:
				return root.GenZshCompletion(out.Stdout)
			}
		},
	}
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
