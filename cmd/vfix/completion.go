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
		Use:   "completion bash|fish|zsh",
		Short: "Print a shell completion script",
		Long: `Print a script that makes the shell complete the verbs and options of vfix. The
shell reads it when it starts. bash needs the package bash-completion.`,
		Example: `  vfix completion bash > /etc/bash_completion.d/vfix
  vfix completion fish > ~/.config/fish/completions/vfix.fish
  vfix completion zsh  > "${fpath[1]}/_vfix"`,
		Annotations: exits(`  0  success   2  usage error`),
		ValidArgs:   shells,
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

// plainUsage removes the back quotes from the descriptions that shells show: they mark the name of a value for the help.
func plainUsage(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	for _, c := range cmd.Commands() {
		plainUsage(c)
	}
}
