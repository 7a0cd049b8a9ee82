// The verb completion.

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/media"
)

var shells = []string{"bash", "fish", "zsh"}

func newCompletionCommand(out *output, _ engine) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|fish|zsh",
		Short: "Print a shell completion script",
		Long: `Print a script that makes the shell complete the verbs and options of vfix, and
names of local images and containers if a docker or podman daemon answers. The
shell reads it when it starts. bash needs the package bash-completion.`,
		Example: `  vfix completion bash > /etc/bash_completion.d/vfix
  vfix completion fish > ~/.config/fish/completions/vfix.fish
  vfix completion zsh  > "${fpath[1]}/_vfix"`,
		Annotations: exits(`  0  success   2  usage error`),
		ValidArgs:   shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("completion", "which shell: want one of %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				fmt.Fprint(out.Stdout, bashNeeds)
				return root.GenBashCompletionV2(out.Stdout, true)
			case "fish":
				return root.GenFishCompletion(out.Stdout, true)
			}
			return root.GenZshCompletion(out.Stdout)
		},
	}
}

// plainUsage removes the back quotes from the descriptions that shells show: they mark the name of a value
// for the help.
func plainUsage(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	for _, c := range cmd.Commands() {
		plainUsage(c)
	}
}

// bashNeeds goes before cobra's script, which calls functions of the package
// bash-completion: it loads them if the shell has not.
const bashNeeds = `# vfix completion for bash; needs the package bash-completion.
if ! declare -F _get_comp_words_by_ref >/dev/null; then
	if [ -r /usr/share/bash-completion/bash_completion ]; then
		. /usr/share/bash-completion/bash_completion
	else
		echo 'vfix: completion for bash needs the package bash-completion' >&2
		return 0 2>/dev/null || exit 0
	fi
fi

`

// namesWait is how long a completion waits for the daemons.
const namesWait = 2 * time.Second

// The words that completeNames offers beside images.
const (
	noContainers    = iota
	namedContainers // behind container:
	allContainers   // also without the prefix
)

// completeNames completes the names of local images and containers. The shell completes
// files if none fits.
func completeNames(e engine, which int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if e.names == nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		parent := cmd.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, cancel := context.WithTimeout(parent, namesWait)
		defer cancel()
		all, containers, _ := e.names(ctx, media.Options{}) // names that cannot be listed are not offered
		if which == allContainers {
			all = append(all, containers...)
		}
		for _, name := range containers {
			if which != noContainers {
				all = append(all, images.ContainerPrefix+name)
			}
		}
		all = slices.DeleteFunc(all, func(name string) bool {
			return !strings.HasPrefix(name, typed) || typed == "" && strings.HasPrefix(name, images.ContainerPrefix)
		})
		slices.Sort(all)
		return slices.Compact(all), cobra.ShellCompDirectiveDefault
	}
}
