// What a decoder has against a file that a user wrote, in words.

package jsonobject

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// InWords is an error of encoding/json's decoder in words of JSON, not of Go; nil stays nil.
func InWords(err error) error {
	var other *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == io.EOF:
		return errors.New("empty, want JSON")
	case err == io.ErrUnexpectedEOF:
		return errors.New("the JSON ends too early")
	case errors.As(err, &other):
		where, article := "", "a"
		if other.Field != "" {
			where = other.Field + ": "
		}
		if other.Value == "array" || other.Value == "object" {
			article = "an"
		}
		return fmt.Errorf("%sgot %s %s, want %s", where, article, other.Value, wanted(other.Type.Kind()))
	case errors.As(err, &syntax):
		return fmt.Errorf("no valid JSON: %w", err)
	case err != nil:
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// wanted is what a member may be.
func wanted(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Struct:
		return "an object"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
