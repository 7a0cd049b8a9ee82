// The verb completion.

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

var shells = []string{"bash", "fish", "powershell", "zsh"}

func newCompletionCommand(out *output) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|fish|powershell|zsh",
		Short: "Print the script that completes vfix's words in a shell",
		Long: `Prints a script that makes the shell complete vfix's verbs and options. It is
read by the shell when it starts.`,
		Example: `  vfix completion bash > /etc/bash_completion.d/vfix
  vfix completion fish > ~/.config/fish/completions/vfix.fish
  vfix completion zsh  > "${fpath[1]}/_vfix"
  vfix completion powershell | Out-String | Invoke-Expression`,
		Annotations: exits("  0  done   2  usage"),
		ValidArgs:   shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("completion", "completion for which shell: want one of %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out.stdout, true)
			case "fish":
				return root.GenFishCompletion(out.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out.stdout)
			}
			return root.GenZshCompletion(out.stdout)
		},
	}
}
