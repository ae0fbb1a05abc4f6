package readapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/history"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// ObjectHistory are the versions of an object since the replica that answers has started.
type ObjectHistory struct {
	Replica string `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	// Versions is empty if the object has not changed.
	Versions []ObjectVersion `json:"versions" doc:"Newest first; empty if the object has not changed since the start. The last one is the version before the first recorded change."`
	Evicted  bool            `json:"evicted,omitempty" doc:"True if older versions are no longer recorded."`
}

// ObjectVersion is one version of an object.
type ObjectVersion struct {
	Time       *time.Time   `json:"time,omitempty" doc:"When it took effect; missing if that was before the first recorded change."`
	Deleted    bool         `json:"deleted,omitempty" doc:"True if the object was deleted."`
	Generation int64        `json:"generation,omitempty" doc:"metadata.generation of objects of an API server."`
	Hash       string       `json:"hash,omitempty" doc:"Identifies the content."`
	Origin     string       `json:"origin,omitempty" doc:"File, document and line of objects of files."`
	Manifest   string       `json:"manifest,omitempty" doc:"The version in YAML."`
	Edits      []ObjectEdit `json:"edits,omitempty" doc:"Fields that differ from the version before, at most 100; missing for the first version, and if it was created or deleted."`
}

// ObjectEdit is a field that differs between two versions.
type ObjectEdit struct {
	Field  string `json:"field" doc:"Path of the field: spec.http[0].timeout."`
	Before string `json:"before,omitempty" doc:"JSON; missing if the field was added."`
	After  string `json:"after,omitempty" doc:"JSON; missing if the field was removed."`
}

// registerHistory adds the operation that returns the versions of an object.
func (a *API) registerHistory(objectErrors []int) {
	huma.Register(a.api, huma.Operation{
		OperationID: "get-object-history", Method: http.MethodGet, Path: Prefix + "/objects/{kind}/{name}/history",
		Summary: "The versions of an object since this replica has started, with the fields that differ",
		Errors:  objectErrors, Middlewares: huma.Middlewares{a.readKey},
	}, func(ctx context.Context, _ *struct{ ObjectName }) (*struct{ Body ObjectHistory }, error) {
		return &struct{ Body ObjectHistory }{a.objectHistory(keyOf(ctx))}, nil
	})
}

// objectHistory returns the recorded versions of the object k, newest first. It has none if
// Options.Versions is nil. The fields in which a version differs from the one before are added,
// without the generation.
func (a *API) objectHistory(k config.Key) ObjectHistory {
	x := ObjectHistory{Replica: a.Replica, Versions: []ObjectVersion{}}
	if a.Versions == nil {
		return x
	}
	versions, evicted := a.Versions(k)
	x.Evicted = evicted
	var before []byte
	for _, v := range versions {
		o := ObjectVersion{Deleted: v.Config == nil}
		if !v.Time.IsZero() {
			o.Time = &v.Time
		}
		var now []byte
		if c := v.Config; c != nil {
			o.Generation, o.Hash, o.Origin = c.Generation, formatHash(c.Hash), c.Origin
			if text, err := debug.Manifest(c); err == nil { // the other fields are useful without it
				o.Manifest = string(text)
				now = withoutGeneration(text)
			}
		}
		if before != nil && now != nil {
			o.Edits = editsBetween(before, now)
		}
		before = now
		x.Versions = append([]ObjectVersion{o}, x.Versions...)
	}
	return x
}

// withoutGeneration returns a manifest as JSON without metadata.generation, which differs between all
// versions. It returns nil if the manifest is not YAML.
func withoutGeneration(manifest []byte) []byte {
	var o map[string]any
	if yaml.Unmarshal(manifest, &o) != nil {
		return nil
	}
	if metadata, ok := o["metadata"].(map[string]any); ok {
		delete(metadata, "generation")
	}
	text, _ := json.Marshal(o) //nolint:errchkjson // it was read from YAML
	return text
}

// editsBetween returns the fields in which two JSON documents differ. It returns nil if either is
// not valid JSON.
func editsBetween(before, after []byte) []ObjectEdit {
	edits, err := history.Compare(before, after)
	if err != nil {
		return nil // never: both were made from YAML
	}
	list := make([]ObjectEdit, 0, len(edits))
	for _, e := range edits {
		list = append(list, ObjectEdit(e))
	}
	return list
}
