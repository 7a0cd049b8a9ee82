// Where the user is, as far as the text shows it, and the next command there.

package diagnose

import (
	"cmp"
	"strings"

	"vfix.dev/vfix/internal/textutil"
)

// place is where the crashed program ran. Of several that a text names, the last one here counts.
type place int

const (
	unknownPlace place = iota
	engine
	wsl
	lxc
	nspawn
	apptainer
	cluster
	kata
	builds
)

// placeWords are words, in lower case, of texts from each place.
var placeWords = []struct {
	p     place
	words []string
}{
	{engine, []string{"docker", "dockerd", "podman", "containerd", "nerdctl", "[moby"}},
	{wsl, []string{"microsoft-standard", "wsl2", "wsl:", "(wsl)"}},
	{lxc, []string{"lxc"}},
	{nspawn, []string{"nspawn", "/var/lib/machines"}},
	{apptainer, []string{"singularity", "apptainer"}},
	{cluster, []string{"kubelet", "kubectl", "crashloopbackoff", "kubernetes"}},
	{kata, []string{"kata"}},
	{builds, []string{"non-zero code", "did not complete successfully", "dockerfile", "buildkit", "error: building at step"}},
}

// placeOf returns the place of which a line, in lower case, has a word.
func placeOf(lower string) (p place) {
	for _, each := range placeWords {
		for _, w := range each.words {
			if hasWord(lower, w) {
				p = each.p
			}
		}
	}
	return p
}

// hasWord reports whether a text contains a word that is not the begin of another.
func hasWord(text, word string) bool {
	for {
		_, rest, ok := strings.Cut(text, word)
		if !ok {
			return false
		}
		if rest == "" || rest[0] < 'a' || rest[0] > 'z' {
			return true
		}
		text = rest
	}
}

// run is a command of words.
func run(why string, words ...string) *Command { return &Command{textutil.QuoteWords(words), why} }

// fixRoot is the command that fixes the image or directory that the user named.
func (o *Options) fixRoot() *Command {
	if o.IsImage {
		return o.rebuild(o.RootName)
	}
	return run("patches all files of that directory in place", "vfix", "patch", "-i", o.RootName)
}

// rebuild is the command that fixes an image.
func (o *Options) rebuild(image string) *Command {
	words := []string{"vfix", "rebuild", image}
	if o.Output != nil {
		words = append(words, o.Output(image)...)
	}
	return run("writes the image with its calls led to the vDSO", words...)
}

// patchProgram is the command that fixes a program on this machine.
func patchProgram(file string) *Command {
	return run("writes a patched copy of the program", "vfix", "patch", "-o", textutil.CopyName(file), file)
}

// command is the next command for a crash: it fixes one on the page, and finds the cause of one at an unknown place.
func (o *Options) command(t *textFacts, c *Crash) *Command {
	fixes := c.Kind.Page()
	subject := cmp.Or(c.Image, c.Path)
	switch {
	case o.RootName != "" && fixes:
		return o.fixRoot()
	case o.RootName != "":
		return scan(o.RootName)
	case t.place == builds && (fixes || c.Image == ""):
		return layer(c.Image)
	case t.place == apptainer:
		return sandbox(c.Image)
	case subject == "":
		return locate(t, c)
	case !fixes && t.place == builds:
		command := scan(subject)
		command.Why += "; if it does, 'vfix layer' writes what COPY --from=vfix / / adds to the Dockerfile"
		return command
	case !fixes:
		return scan(subject)
	case strings.HasPrefix(c.Image, "/"):
		return run("patches all files of the container's root filesystem in place; stop it before", "vfix", "patch", "-i", c.Image)
	case c.Image != "":
		return o.rebuild(c.Image)
	}
	return patchProgram(c.Path)
}

func scan(source string) *Command {
	return run("shows whether it calls the vsyscall page, and the command that fixes it", "vfix", "scan", source)
}

// layer is the command for a step of a build.
func layer(image string) *Command {
	why := "writes the layer that 'COPY --from=vfix / /' behind FROM adds to the Dockerfile: its RUN steps then work ('vfix layer --help')"
	if image == "" {
		why += "; 'vfix scan' of the image in FROM shows whether the page is the cause"
	}
	return &Command{"vfix layer", why}
}

// sandbox is the command for an image of Apptainer, "" if it is not known.
func sandbox(image string) *Command {
	if rest, is := strings.CutPrefix(image, "docker:"); is {
		return scan("docker:" + rest)
	}
	if image == "" {
		image = "IMAGE"
	}
	return &Command{"apptainer build --sandbox root " + textutil.QuotePath(image) + " && vfix scan root",
		"shows whether the image calls the vsyscall page; 'vfix patch -i root' fixes it, and 'apptainer build FIXED.sif root' writes it again"}
}

// composeName matches the name of a service's container in the log of docker compose, without the project.
var composeName = textutil.LazyRegexp(`^[\w.]+-\d+$`)

// placeCommands find the image or program of a crash, by the place.
var placeCommands = map[place]Command{
	engine:  {"docker ps -a --filter exited=139", "lists the containers that ended with this status; 'vfix rebuild IMAGE' fixes an image that calls the page"},
	lxc:     {"vfix scan /var/lib/lxc/NAME/rootfs", "shows which files of the container NAME call the page"},
	nspawn:  {"vfix scan /var/lib/machines/NAME", "shows which files of the container NAME call the page"},
	cluster: {"kubectl get pods -A -o json | vfix diagnose -", "lists the containers that ended with status 139, and their images"},
	kata:    {"kubectl get pods -A -o json | vfix diagnose -", "lists the containers that ended with status 139, and their images"},
}

// locate is the command that finds what to fix or to scan, if no image or program is known.
func locate(t *textFacts, c *Crash) *Command {
	switch command, ok := placeCommands[t.place]; {
	case c.Pod != "":
		return getPod(c.Pod)
	case composeName().MatchString(c.Container):
		return &Command{"docker compose ps -a | vfix diagnose -", "reads the image of the container " + c.Container}
	case c.Container != "":
		return &Command{"vfix diagnose " + textutil.QuotePath(c.Container), "examines the container and its image"}
	case ok:
		return &command
	case t.place == apptainer:
		return sandbox("")
	case t.place == builds:
		return layer("")
	case c.Program == "" && c.Kind.Page():
		return &Command{"vfix patch -o PROGRAM.vfix PROGRAM", "with the path of the program: writes a patched copy"}
	case c.Program == "":
		return &Command{"dmesg | vfix diagnose -", "the kernel's log shows where the program crashed; dmesg may need root"}
	case c.Kind.Page():
		return &Command{"vfix patch -o " + textutil.QuotePath(textutil.CopyName(c.Program)) + " PROGRAM", "with the path of " + c.Program + ": writes a patched copy; if it ran in an image: 'vfix diagnose --root IMAGE' with this text names the file that calls the page, 'vfix rebuild IMAGE' fixes it"}
	}
	return &Command{"vfix scan PROGRAM", "with the path of " + c.Program + ", or the image that it ran in: shows whether it calls the vsyscall page; 'vfix diagnose --root IMAGE' with this text says whether that is the cause"}
}

// getPod reads a pod, NAME or NAMESPACE/NAME, from the cluster.
func getPod(pod string) *Command {
	words := []string{"kubectl", "get", "pod", "-o", "json"}
	if namespace, name, ok := strings.Cut(pod, "/"); ok {
		words, pod = append(words, "-n", namespace), name
	}
	return &Command{textutil.QuoteWords(append(words, pod)) + " | vfix diagnose -", "reads the exit status and the image of each container"}
}
