// Recreating a container with mounts over its files, and undoing that where a step fails.

package hotfix

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/mountopts"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/progress"
)

// Recreated is a container that was recreated.
type Recreated struct {
	ID    string `json:"id"`  // of the new container, which has the old one's name and is not started
	Old   string `json:"old"` // what the old container is called now
	OldID string `json:"old_id"`
	// Image is the image that was made of the old container's own changes, "" if it had
	// none.
	Image string `json:"image"`
	// Back are the commands that undo it all, Clean those that remove what is no longer
	// needed when the new container works.
	Back  []string `json:"back"`
	Clean []string `json:"clean"`
}

// recreation recreates a container with mounts. The old one keeps its name until the new
// one is whole; whatever fails, what was done is undone in the reverse order.
type recreation struct {
	c      *engine.Client
	old    *engine.Container
	raw    json.RawMessage // what the engine says of the old one
	mounts []mountopts.Mount
	dir    string
	P      progress.Reporter
	Undo   []undoing
	newID  string
}

// undoing is how one step is undone. It must do no harm where the step was never done: an
// answer may get lost.
type undoing struct {
	Do func(context.Context) error
	By string // the same as a command
}

// keptImages is what the images are called that hold a container's own changes.
const keptImages = "vfix-hotfix"

// undoTime is how long undoing may take all together.
const undoTime = time.Minute

func (r *recreation) run(ctx context.Context) (_ *Recreated, err error) {
	defer func() {
		if err != nil {
			err = r.RollBack(ctx, err)
		}
	}()
	name := strings.TrimPrefix(r.old.Name, "/")
	for _, m := range r.mounts {
		if !utf8.ValidString(m.Target) {
			return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%q: an engine takes no name that is not UTF-8", m.Target)
		}
	}
	left, err := findLeftovers(ctx, r.c, name)
	if err != nil {
		return nil, err
	}
	for _, remove := range left.made {
		r.P.Note("left by a run that was killed, unless one is at work: to remove it: %s", remove)
	}
	kept, err := r.freeName(ctx, name+keptSuffix)
	if err != nil {
		return nil, err
	}
	out := &Recreated{Old: kept, OldID: r.old.ID}
	image, err := r.image(ctx, name, out)
	if err != nil {
		return nil, err
	}
	if err := r.create(ctx, name, image); err != nil {
		return nil, err
	}
	out.ID = r.newID
	if err := r.swap(ctx, name, kept); err != nil {
		return nil, err
	}
	out.Back = []string{"docker rm " + name, "docker rename " + kept + " " + name}
	out.Clean = []string{"docker rm " + kept}
	if out.Image != "" {
		out.Back = append(out.Back, "docker rmi "+out.Image)
	}
	return out, nil
}

// RollBack undoes what was done and returns err, with what is left to do if that fails.
func (r *recreation) RollBack(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	var failed []error
	var left []string
	for _, u := range slices.Backward(r.Undo) {
		if uerr := u.Do(ctx); uerr != nil {
			failed = append(failed, uerr)
			left = append(left, u.By)
		}
	}
	if failed != nil {
		return hinterr.With(fmt.Errorf("%w (and undoing it: %w)", err, errors.Join(failed...)),
			"what is left to undo: %s", strings.Join(left, " && "))
	}
	return err
}

// freeName gives a container name that is not in use: the one wished, else with a number.
func (r *recreation) freeName(ctx context.Context, wish string) (string, error) {
	const most = 100
	for n := 1; n < most; n++ {
		name := wish
		if n > 1 {
			name = fmt.Sprintf("%s-%d", wish, n)
		}
		_, err := r.c.Container(ctx, name)
		if engine.NotFound(err) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", hinterr.With(fmt.Errorf("%s and %d more names are in use", wish, most-1), "remove old ones: docker rm %s", wish)
}

// image is what the new container is made of: the old one's image by name, or by ID if
// that name means another image now. The container's changes in its own layer go
// into an image first, or it would be missing.
func (r *recreation) image(ctx context.Context, name string, out *Recreated) (string, error) {
	changed, err := r.c.Changed(ctx, r.old.ID)
	if err != nil {
		return "", err
	}
	if changed == 0 {
		found, err := r.c.Image(ctx, r.old.Config.Image)
		switch {
		case engine.NotFound(err), err == nil && found.ID != r.old.Image:
			r.P.Note("%s is another image now: the container keeps its own, %s", r.old.Config.Image, r.old.Image)
			return r.old.Image, nil
		case err != nil:
			return "", err
		}
		return r.old.Config.Image, nil
	}
	// A tag has the letters that a container's name has (distribution/reference, tag), and
	// at most 128 of them.
	const longest = 100
	tag := name[:min(len(name), longest)] + "-" + randomHex()
	out.Image = keptImages + ":" + tag
	r.Undo = append(r.Undo, undoing{func(ctx context.Context) error {
		return unlessGone(r.c.RemoveImage(ctx, out.Image))
	}, "docker rmi " + out.Image})
	r.P.Note("what the container changed in its own layer (%d files and directories) is kept in the image %s", changed, out.Image)
	return out.Image, r.c.Commit(ctx, r.old.ID, "docker.io/library/"+keptImages, tag, "what container "+name+" changed, for vfix hotfix")
}

func randomHex() string {
	var b [4]byte
	rand.Read(b[:]) // never errs (crypto/rand, since Go 1.24)
	return hex.EncodeToString(b[:])
}

// unlessGone is err, except for what is not there.
func unlessGone(err error) error {
	if engine.NotFound(err) {
		return nil
	}
	return err
}

// create makes the new container, under a name of its own, and connects its networks.
func (r *recreation) create(ctx context.Context, name, image string) error {
	req, err := newCreateRequest(r.raw, image, r.mounts, r.dir)
	if err != nil {
		return err
	}
	temp := name + newSuffix + randomHex()
	r.Undo = append(r.Undo, undoing{func(ctx context.Context) error {
		id := r.newID
		if id == "" {
			id = temp // the answer may have been lost
		}
		return unlessGone(r.c.RemoveContainer(ctx, id))
	}, "docker rm " + temp})
	answer, err := r.c.Post(ctx, "/containers/create", url.Values{"name": {temp}}, req.body)
	if err != nil {
		return fmt.Errorf("the new container: %w", err)
	}
	var made struct {
		ID       string `json:"Id"`
		Warnings []string
	}
	if err := json.Unmarshal(answer, &made); err != nil || made.ID == "" {
		return hinterr.Damaged("the engine's answer to create: %q", answer)
	}
	r.newID = made.ID
	for _, w := range made.Warnings {
		r.P.Note("docker: %s", w)
	}
	for _, n := range req.more {
		body, err := jsonobject.Encode(map[string]any{"Container": made.ID, "EndpointConfig": n.config})
		if err != nil {
			return err
		}
		if _, err := r.c.Post(ctx, "/networks/"+n.name+"/connect", nil, body); err != nil {
			return fmt.Errorf("network %s: %w", n.name, err)
		}
	}
	return nil
}

// swap gives the old container the name kept, and the new one the old one's.
func (r *recreation) swap(ctx context.Context, name, kept string) error {
	now, err := r.c.Container(ctx, r.old.ID)
	if err != nil {
		return err
	}
	if now.Busy() || now.Name != r.old.Name {
		return hinterr.With(errors.New("it was started or renamed meanwhile"), "docker stop %s, and try again", name)
	}
	// The new container is removed first: it may have the name already.
	remove := r.Undo[len(r.Undo)-1]
	r.Undo = append(r.Undo[:len(r.Undo)-1], undoing{func(ctx context.Context) error {
		now, err := r.c.Container(ctx, r.old.ID)
		if err != nil || now.Name == r.old.Name {
			return err
		}
		return r.c.Rename(ctx, r.old.ID, name)
	}, "docker rename " + kept + " " + name}, remove)
	if err := r.c.Rename(ctx, r.old.ID, kept); err != nil {
		return fmt.Errorf("renamed to %s: %w", kept, err)
	}
	if err := r.c.Rename(ctx, r.newID, name); err != nil {
		return fmt.Errorf("the new container: renamed to %s: %w", name, err)
	}
	return nil
}

// The names that a recreation gives: to the new container until it has the old one's, and to the old one.
const (
	newSuffix  = "-vfix-"
	keptSuffix = "-vfix-old"
)

// leftovers are what killed recreations of one container left: nothing shows it but the names, which no engine can swap in
// one step.
type leftovers struct {
	made []string // commands that remove a new container, and the image that was made for it
	kept []string // names that the old one may have
}

// findLeftovers asks the engine for what killed recreations of the container name left.
func findLeftovers(ctx context.Context, c *engine.Client, name string) (l leftovers, err error) {
	list, err := c.Containers(ctx, true)
	if err != nil {
		return l, err
	}
	made := regexp.MustCompile("^" + regexp.QuoteMeta(name+newSuffix) + "[0-9a-f]{8}$")
	kept := regexp.MustCompile("^" + regexp.QuoteMeta(name+keptSuffix) + "(-[0-9]+)?$")
	for _, r := range list {
		is := containerOf(r.Names, r.ID)
		switch {
		case made.MatchString(is) && r.State == "created":
			remove := "docker rm " + is
			if strings.HasPrefix(r.Image, keptImages+":") {
				remove += " && docker rmi " + r.Image
			}
			l.made = append(l.made, remove)
		case kept.MatchString(is):
			l.kept = append(l.kept, is)
		}
	}
	return l, nil
}

// notRenamed is the error for a container without its name: the old one has given it up, and the new one has not
// got it. nil if that is not so.
func notRenamed(ctx context.Context, c *engine.Client, name string) error {
	l, err := findLeftovers(ctx, c, name)
	if err != nil || len(l.made) == 0 || len(l.kept) == 0 {
		return err
	}
	err = fmt.Errorf("a run of vfix hotfix --apply was killed before the new container had its name; the old one is %s", strings.Join(l.kept, " or "))
	return hinterr.With(err, "%s && docker rename %s %s, and try again", strings.Join(l.made, " && "), l.kept[len(l.kept)-1], name)
}
