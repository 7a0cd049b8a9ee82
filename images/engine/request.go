// Requests, and errors of the daemon.

package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxAnswer is the largest answer of JSON that is read, in bytes.
const maxAnswer = 64 << 20

// Error is what a daemon says of a request that failed.
type Error struct {
	Status  int // of HTTP
	Message string
}

func (e *Error) Error() string { return e.Message }

// NotFound reports whether a daemon has no such image or container.
func NotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// do sends a request. An answer with an error status is returned as an error; the caller must close any other.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body io.Reader, contentType string) (*http.Response, error) {
	u := c.base
	u.Path += path
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.userAgent)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ue, is := errors.AsType[*url.Error](err); is {
			err = ue.Err // without a URL that nobody typed
		}
		return nil, err
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	const most = 1 << 20
	answer, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, err
	}
	var m struct{ Message string }
	if json.Unmarshal(answer, &m) != nil || m.Message == "" {
		m.Message = resp.Status
	}
	return nil, &Error{resp.StatusCode, strings.TrimSpace(m.Message)}
}

// raw sends a request and reads the whole answer.
func (c *Client) raw(ctx context.Context, method, path string, query url.Values, body io.Reader) ([]byte, error) {
	contentType := ""
	if body != nil {
		contentType = "application/json"
	}
	resp, err := c.do(ctx, method, path, query, body, contentType)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = fmt.Errorf("%s %s: an answer of more than %d bytes", method, path, maxAnswer)
	}
	return answer, err
}

// get decodes the answer to a question.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (v T, err error) {
	answer, err := c.raw(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(answer, &v); err != nil {
		return v, fmt.Errorf("the engine's answer to GET %s: %w", path, err)
	}
	return v, nil
}

// stream opens a long answer, which the caller must close.
func (c *Client) stream(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	resp, err := c.do(ctx, http.MethodGet, path, query, nil, "")
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Post sends a JSON body as it is and returns the answer.
func (c *Client) Post(ctx context.Context, path string, query url.Values, body []byte) ([]byte, error) {
	answer, err := c.raw(ctx, http.MethodPost, path, query, bytes.NewReader(body))
	if _, said := errors.AsType[*Error](err); err != nil && !said {
		err = fmt.Errorf("POST %s: %w", path, err)
	}
	return answer, err
}
