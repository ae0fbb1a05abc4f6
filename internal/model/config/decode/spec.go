package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Spec decodes the spec of an Istio kind from JSON. Every fault is a Problem with its path
// ("spec.http[0].rout"), without key and origin. The message is nil if there is an Error.
//
// The format is protobuf's JSON format, in which fields may also have their proto names
// (per_try_timeout). Durations may have any form that Go's time.ParseDuration accepts ("1m30s"), as
// the Istio API documents them.
func Spec(info api.KindInfo, body []byte) (proto.Message, []config.Problem) {
	spec, _, problems := readSpec(info, body, false)
	return spec, problems
}

// StoredSpec decodes a spec like Spec, but skips unknown fields with a Warning: the spec may have
// been written for another version.
func StoredSpec(info api.KindInfo, body []byte) (proto.Message, []config.Problem) {
	spec, _, problems := readSpec(info, body, true)
	return spec, problems
}

// readSpec decodes a spec and reports everything invalid as Problems, with its path; with an Error
// the spec is nil. A missing spec is an empty one. If stored is set, unknown fields are Warnings.
// partial is set if the spec has Errors: it is the spec without the wrong values. It is nil if the
// rest cannot be decoded either.
func readSpec(info api.KindInfo, body []byte, stored bool) (spec proto.Message, partial *partialSpec,
	list []config.Problem) {
	at := field.NewPath("spec")
	spec = info.NewSpec()
	tree, err := parseJSON(body)
	if err != nil {
		return nil, nil, []config.Problem{{Field: at.String(), Reason: err.Error(), Severity: config.Error}}
	}
	if tree == nil { // a missing spec is an empty one
		return spec, nil, nil
	}
	w := &walk{stored: stored}
	tree = w.checkMessage(at, tree, spec.ProtoReflect().Descriptor())
	if w.failed {
		return nil, newPartialSpec(info, tree, w.wrong), w.problems
	}
	if w.rewrote {
		if body, err = json.Marshal(tree); err != nil {
			return nil, nil, []config.Problem{{Field: at.String(), Reason: err.Error(), Severity: config.Error}}
		}
	}
	if err := protojson.Unmarshal(body, spec); err != nil {
		// The walk reports everything that protojson refuses, with its path. This is a fault that
		// the walk missed.
		reason := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
		return nil, nil, append(w.problems, config.Problem{Field: at.String(), Reason: reason, Severity: config.Error})
	}
	return spec, nil, w.problems
}

// parseJSON parses one JSON value, with numbers as json.Number. It returns nil for empty text and
// for null, and an error for invalid JSON or more than one value.
func parseJSON(body []byte) (any, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("not valid JSON: more than one value")
	}
	return tree, nil
}
