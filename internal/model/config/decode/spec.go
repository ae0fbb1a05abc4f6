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

// Spec reads the spec of an Istio kind from JSON. Every fault becomes an Error with its path ("spec.http[0].rout"),
// without key and origin; the message is nil unless there is none.
//
// The form is protobuf's JSON form, in which fields may also have their proto names (per_try_timeout), except that
// durations may be anything that Go's time.ParseDuration reads ("1m30s"), as the Istio API documents them.
func Spec(info api.KindInfo, body []byte) (proto.Message, []config.Problem) {
	return readSpec(info, body, false)
}

// readSpec reads a spec. If it was stored, unknown fields are Warnings.
func readSpec(info api.KindInfo, body []byte, stored bool) (proto.Message, []config.Problem) {
	at := field.NewPath("spec")
	spec := info.NewSpec()
	tree, err := parseJSON(body)
	if err != nil {
		return nil, []config.Problem{{Field: at.String(), Reason: err.Error(), Severity: config.Error}}
	}
	if tree == nil { // no spec is the empty one
		return spec, nil
	}
	w := &walk{stored: stored}
	tree = w.message(at, tree, spec.ProtoReflect().Descriptor())
	if w.failed {
		return nil, w.problems
	}
	if w.rewrote {
		if body, err = json.Marshal(tree); err != nil {
			return nil, []config.Problem{{Field: at.String(), Reason: err.Error(), Severity: config.Error}}
		}
	}
	if err := protojson.Unmarshal(body, spec); err != nil {
		// The walk knows all that protojson refuses, with its path; this is what it may have missed.
		reason := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
		return nil, append(w.problems, config.Problem{Field: at.String(), Reason: reason, Severity: config.Error})
	}
	return spec, w.problems
}

// parseJSON reads one JSON value, numbers as json.Number.
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
