// Recreating a container with mounts over its files, and undoing that if a step fails.

package hotfix

import (
	"cmp"
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
	Old   string `json:"old"` // the present name of the old container
	OldID string `json:"old_id"`
	// Image is the image that was made of the old container's own changes, "" if it had
	// none.
	Image string `json:"image"`
	// Back are the commands that undo it all, Clean those that remove the leftovers when the new container
	// works.
	Back  []string `json:"back"`
	Clean []string `json:"clean"`
}

// recreation recreates a container with mounts. The old one keeps its name until the new one is complete; if
// anything fails, all steps are undone in reverse order.
type recreation struct {
	c      *engine.Client
	old    *engine.Container
	mounts []mountopts.Mount
	dir    string
	P      progress.Reporter
	Undo   []undoing
	Recreated
	name  string // of the old one, which the new one gets
	image string // that the new one is made of
}

// undoing is how one step is undone. It must be harmless if the step was never done: an answer may get lost.
type undoing struct {
	Do func(context.Context) error
	By string // the same as a command
}

// keptImages is the name of the images that hold a container's own changes.
const keptImages = "vfix-hotfix"

// undoTime is how long undoing may take in all.
const undoTime = time.Minute

func (r *recreation) run(ctx context.Context) (*Recreated, error) {
	r.name, r.OldID = strings.TrimPrefix(r.old.Name, "/"), r.old.ID
	for _, step := range []func(context.Context) error{r.prepare, r.findImage, r.create, r.swap} {
		if err := step(ctx); err != nil {
			return nil, r.RollBack(ctx, err)
		}
	}
	r.Back = []string{"docker rm " + r.name, "docker rename " + r.Old + " " + r.name}
	r.Clean = []string{"docker rm " + r.Old}
	if r.Image != "" {
		r.Back = append(r.Back, "docker rmi "+r.Image)
	}
	return &r.Recreated, nil
}

// prepare rejects containers that cannot be recreated, names the leftovers of killed runs, and finds a name
// for the old container.
func (r *recreation) prepare(ctx context.Context) error {
	for _, m := range r.mounts {
		if !utf8.ValidString(m.Target) {
			return hinterr.Errorf(hinterr.ErrUnsupported, "%q: engines accept only names in UTF-8", m.Target)
		}
	}
	left, err := findLeftovers(ctx, r.c, r.name)
	if err != nil {
		return err
	}
	for _, remove := range left.made {
		r.P.Note("left by a run that was killed, unless one is at work: to remove it: %s", remove)
	}
	const most = 100
	wish := r.name + keptSuffix
	for n := 1; n < most; n++ {
		if r.Old = wish; n > 1 {
			r.Old = fmt.Sprintf("%s-%d", wish, n)
		}
		if _, err := r.c.Container(ctx, r.Old); err != nil {
			return unlessGone(err) // then the name is not in use
		}
	}
	return hinterr.With(fmt.Errorf("%s and %d more names are in use", wish, most-1), "remove old ones: docker rm %s", wish)
}

// RollBack undoes the steps and returns err, with the remaining commands if that fails.
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

// findImage finds the image for the new container: the old one's by name, or by ID if that name now means
// another image. The container's changes in its own layer are committed to an image first, or they would be
// lost.
func (r *recreation) findImage(ctx context.Context) error {
	r.image = r.old.Config.Image
	changed, err := r.c.Changed(ctx, r.old.ID)
	if err != nil {
		return err
	}
	if changed == 0 {
		found, err := r.c.Image(ctx, r.image)
		if engine.NotFound(err) || err == nil && found.ID != r.old.Image {
			r.P.Note("%s is another image now: the container keeps its own, %s", r.image, r.old.Image)
			r.image, err = r.old.Image, nil
		}
		return err
	}
	// A tag may have the same characters as a container's name (distribution/reference, tag), and at most 128
	// of them.
	const longest = 100
	tag := r.name[:min(len(r.name), longest)] + "-" + randomHex()
	r.Image = keptImages + ":" + tag
	r.image = r.Image
	r.Undo = append(r.Undo, undoing{func(ctx context.Context) error {
		return unlessGone(r.c.Remove(ctx, "images/"+r.Image))
	}, "docker rmi " + r.Image})
	r.P.Note("the container's own changes (%d files and directories) are kept in the image %s", changed, r.Image)
	return r.c.Commit(ctx, r.old.ID, "docker.io/library/"+keptImages, tag, "what container "+r.name+" changed, for vfix hotfix")
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

// create makes the new container, under a temporary name, and connects its networks.
func (r *recreation) create(ctx context.Context) error {
	req, err := newCreateRequest(r.old.Raw, r.image, r.mounts, r.dir)
	if err != nil {
		return err
	}
	temp := r.name + newSuffix + randomHex()
	r.Undo = append(r.Undo, undoing{func(ctx context.Context) error {
		// Without an ID the answer may have been lost.
		return unlessGone(r.c.Remove(ctx, "containers/"+cmp.Or(r.ID, temp)))
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
	r.ID = made.ID
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

// swap gives the old container the name that is kept for it, and the new one the old one's.
func (r *recreation) swap(ctx context.Context) error {
	now, err := r.c.Container(ctx, r.old.ID)
	if err != nil {
		return err
	}
	if now.Busy() || now.Name != r.old.Name {
		return hinterr.With(errors.New("it was started or renamed meanwhile"), "docker stop %s, and try again", r.name)
	}
	// The new container is removed first: it may have the name already.
	r.Undo = slices.Insert(r.Undo, len(r.Undo)-1, undoing{func(ctx context.Context) error {
		now, err := r.c.Container(ctx, r.old.ID)
		if err != nil || now.Name == r.old.Name {
			return err
		}
		return r.c.Rename(ctx, r.old.ID, r.name)
	}, "docker rename " + r.Old + " " + r.name})
	if err := r.c.Rename(ctx, r.old.ID, r.Old); err != nil {
		return fmt.Errorf("renamed to %s: %w", r.Old, err)
	}
	if err := r.c.Rename(ctx, r.ID, r.name); err != nil {
		return fmt.Errorf("the new container: renamed to %s: %w", r.name, err)
	}
	return nil
}

// The names that a recreation gives: to the new container until it has the old one's, and to the old one.
const (
	newSuffix  = "-vfix-"
	keptSuffix = "-vfix-old"
)

// leftovers are what killed recreations of one container left: only the names show it, because no engine can
// swap them in one step.
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

// notRenamed is the error for a name that no container has: the old one has given it up, and the new one has
// not got it. Otherwise nil.
func notRenamed(ctx context.Context, c *engine.Client, name string) error {
	l, err := findLeftovers(ctx, c, name)
	if err != nil || len(l.made) == 0 || len(l.kept) == 0 {
		return err
	}
	err = fmt.Errorf("a run of vfix hotfix --apply was killed before the new container had its name; the old one is %s", strings.Join(l.kept, " or "))
	return hinterr.With(err, "%s && docker rename %s %s, and try again", strings.Join(l.made, " && "), l.kept[len(l.kept)-1], name)
}
