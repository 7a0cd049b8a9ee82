// The signatures of docker schema 1 manifests: JSON Web Signatures (RFC 7515) in docker's
// own "pretty" form, in which the manifest itself stays readable and the signatures are at
// the end of it (distribution, docs/spec/manifest-v2-1.md, "Signed Manifests"; libtrust,
// jsonsign.go). The signed text is the one without them: its first formatLength bytes, and
// formatTail behind those, both from the protected header:
//
//	{ "name": …, "history": […]           formatLength bytes
//	  , "signatures": [{"header": {"jwk": …, "alg": "ES256"},
//	                    "signature": …, "protected": base64({"formatLength": …, "formatTail": base64("\n}")})}]
//	}
//
// The key comes with the signature, and nobody vouches for it: a signature proves only
// that the manifest is undamaged.

package schema1

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"vfix.dev/vfix/internal/hinterr"
)

// jwsAlgorithms are those that libtrust signs with.
var jwsAlgorithms = []jose.SignatureAlgorithm{
	jose.ES256, jose.ES384, jose.ES512, jose.RS256, jose.RS384, jose.RS512,
}

// maxSignatures is how many signatures a manifest may have; docker writes one.
const maxSignatures = 32

// prettySignature is one signature in a manifest.
type prettySignature struct {
	Protected string          `json:"protected"`
	Header    json.RawMessage `json:"header"`
	Signature string          `json:"signature"`
}

// signedPayload returns what the signatures of a manifest are about, and how many there
// are; all were checked. Without any the payload is the whole text.
func signedPayload(raw []byte) (payload []byte, signatures int, err error) {
	var m struct {
		Signatures []prettySignature `json:"signatures"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, 0, hinterr.Damaged("%v", err)
	}
	if len(m.Signatures) == 0 {
		return raw, 0, nil
	}
	if len(m.Signatures) > maxSignatures {
		return nil, 0, hinterr.Damaged("%d signatures, want at most %d", len(m.Signatures), maxSignatures)
	}
	for n, s := range m.Signatures {
		p, err := s.payload(raw)
		if err == nil && n > 0 && !bytes.Equal(p, payload) {
			err = errors.New("signs a different text from the first")
		}
		if err == nil {
			err = s.verify(p)
		}
		if err != nil {
			return nil, 0, hinterr.Damaged("signature %d: %v", n, err)
		}
		payload = p
	}
	return payload, len(m.Signatures), nil
}

// payload extracts the signed text from a manifest.
func (s prettySignature) payload(raw []byte) ([]byte, error) {
	text, err := decodeBase64URL(s.Protected)
	if err != nil {
		return nil, errors.New("protected header: not base64")
	}
	var h struct {
		FormatLength int    `json:"formatLength"`
		FormatTail   string `json:"formatTail"`
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, errors.New("protected header: not JSON")
	}
	tail, err := decodeBase64URL(h.FormatTail)
	switch {
	case err != nil:
		return nil, errors.New("protected header: formatTail is not base64")
	case h.FormatLength <= 0 || h.FormatLength > len(raw):
		return nil, errors.New("protected header: formatLength is outside of the manifest")
	}
	return append(bytes.Clone(raw[:h.FormatLength]), tail...), nil
}

func (s prettySignature) verify(payload []byte) error {
	text, err := json.Marshal(struct {
		prettySignature
		Payload string `json:"payload"`
	}{s, base64.RawURLEncoding.EncodeToString(payload)})
	if err != nil {
		return err
	}
	signed, err := jose.ParseSignedJSON(string(text), jwsAlgorithms)
	if err != nil {
		return plainJOSE(err)
	}
	var key any
	if jwk := signed.Signatures[0].Header.JSONWebKey; jwk != nil {
		key = jwk.Key
	} else if key, err = s.certifiedKey(); err != nil {
		return err
	}
	if _, err := signed.Verify(key); err != nil {
		return errors.New("does not fit the manifest, which was changed after it was signed")
	}
	return nil
}

// certifiedKey is the key of the first certificate of the header's x5c.
func (s prettySignature) certifiedKey() (any, error) {
	var h struct {
		Chain [][]byte `json:"x5c"`
	}
	if err := json.Unmarshal(s.Header, &h); err != nil || len(h.Chain) == 0 {
		return nil, errors.New("has no key")
	}
	cert, err := x509.ParseCertificate(h.Chain[0])
	if err != nil {
		return nil, err
	}
	return cert.PublicKey, nil
}

// plainJOSE removes the library's name from its errors.
func plainJOSE(err error) error {
	return errors.New(strings.ReplaceAll(err.Error(), "go-jose/go-jose: ", ""))
}

// decodeBase64URL reads the base64 of RFC 7515, padded or not.
func decodeBase64URL(s string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
}
