// What a statement says of the image and its base as a whole, compared with the image.

package images

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/provenance"
)

// identity compares what the image is.
func (c *claims) identity() error {
	src := c.after.Src
	digests, err := provenance.DigestsOf(src)
	if err != nil {
		return err
	}
	if !c.st.HasSubject(digests) {
		c.problem("it is about another image: none of its %d subjects is %v", len(c.st.Subject), src.Ref)
	}
	c.skip("subject[].name", "a result can be renamed")
	for _, a := range c.st.Subject {
		if !(&provenance.Statement{Subject: []provenance.Artifact{a}}).HasSubject(digests) {
			c.skip("subject[].digest", "%v: another place or the index of the image", a.Digest)
		}
	}
	config := digests[0]
	if got := c.st.Predicate.Derived.Config[config.Algorithm]; got != config.Hex {
		c.problem("image config: got %v, stated %s", config, got)
	}
	return nil
}

// origin compares what is stated of the base and of this run of vfix with what the image says.
func (c *claims) origin() error {
	config, err := c.after.Src.Image.ConfigFile()
	if err != nil {
		return err
	}
	p := &c.st.Predicate
	for _, l := range []struct{ key, stated string }{{keyVersion, p.Version}, {keyBaseName, p.Base.Name}} {
		if got := config.Config.Labels[l.key]; got != l.stated {
			c.problem("label %s: got %q, stated %q", l.key, got, l.stated)
		}
	}
	if h, err := v1.NewHash(config.Config.Labels[keyBaseDigest]); err != nil {
		c.problem("label %s: %v", keyBaseDigest, err)
	} else if p.Base.Digest[h.Algorithm] != h.Hex {
		c.problem("label %s: got %v, stated %v", keyBaseDigest, h, p.Base.Digest)
	}
	raw, err := c.after.Src.Image.RawConfigFile()
	if err != nil {
		return err
	}
	switch traced := fallback.EntrypointIsTraced(raw); {
	case traced && c.base.At(fallback.TracePath) != nil:
		c.skip("derived.entrypointWrapped", "the base has vfix-trace, too")
	case traced != p.Derived.Traced:
		c.problem("vfix-trace before the entrypoint: got %v, stated %v", traced, p.Derived.Traced)
	}
	return nil
}
