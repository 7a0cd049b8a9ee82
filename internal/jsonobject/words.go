// Errors of encoding/json in words of JSON.

package jsonobject

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// InWords is an error of encoding/json's decoder in words of JSON, not of Go; nil and other errors stay as they are.
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
		return fmt.Errorf("invalid JSON: %w", err)
	case err != nil && strings.HasPrefix(err.Error(), "json: "): // has no type (decode.go, "unknown field")
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return err
}

// wanted is what a member may be.
func wanted(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
