// What registries answer.

package registry

import (
	"errors"
	"net/http"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// NotThere reports whether a registry says that it does not have something.
func NotThere(err error) bool {
	var e *transport.Error
	return errors.As(err, &e) && e.StatusCode == http.StatusNotFound
}
