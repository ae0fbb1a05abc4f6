package readapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// ObjectSummary is a row in the list of objects.
type ObjectSummary struct {
	Source
	// Absent is set for an object that has errors and no valid version.
	Absent   bool   `json:"absent,omitempty" doc:"True if the object has errors and the control plane has no valid version of it."`
	Origin   string `json:"origin,omitempty" doc:"File, document and line of objects of files."`
	Errors   int    `json:"errors,omitempty"`
	Warnings int    `json:"warnings,omitempty"`
}

// ObjectList are the objects that the caller may read.
type ObjectList struct {
	Replica string          `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	Objects []ObjectSummary `json:"objects" doc:"By kind, namespace and name; those without a valid version last."`
}

// registerObjects adds the operation that lists the objects.
func (a *API) registerObjects() {
	huma.Register(a.api, huma.Operation{
		OperationID: "list-objects", Method: http.MethodGet, Path: Prefix + "/objects",
		Summary: "The objects that this replica uses, with the number of their problems",
		Errors:  []int{http.StatusUnauthorized, http.StatusForbidden},
	}, a.objects)
}

// objects serves the objects that the caller may read, of all kinds that snapshots keep, with the
// numbers of their Errors and Warnings. Objects with Problems but no valid version follow, with
// Absent set. Secrets are not listed.
func (a *API) objects(ctx context.Context, _ *struct{}) (*struct{ Body ObjectList }, error) {
	caller, s := callerOf(ctx), a.Snapshot()
	x := ObjectList{Replica: a.Replica, Objects: []ObjectSummary{}}
	index := map[config.Key]int{}
	for _, kind := range api.Kinds() {
		if !snapshot.Keeps(kind.Kind) {
			continue
		}
		for _, c := range s.Configs(kind.Kind) {
			if !caller.CanRead(c.Namespace) {
				continue
			}
			index[c.Key] = len(x.Objects)
			x.Objects = append(x.Objects, ObjectSummary{
				Source: SourceOf(c.Key), Origin: c.Origin,
			})
		}
	}
	for _, p := range a.problemsOf(caller, Freshness{}) {
		k := config.Key{Kind: api.Kind(p.Kind), Namespace: p.Namespace, Name: p.Name}
		i, listed := index[k]
		if !listed && snapshot.Keeps(k.Kind) && k.Name != "" {
			i, listed = len(x.Objects), true
			index[k] = i
			x.Objects = append(x.Objects, ObjectSummary{Source: Source{Kind: p.Kind, Namespace: p.Namespace,
				Name: p.Name}, Origin: p.Origin, Absent: true})
		}
		switch {
		case !listed:
		case p.Severity == severityError:
			x.Objects[i].Errors++
		default:
			x.Objects[i].Warnings++
		}
	}
	return &struct{ Body ObjectList }{x}, nil
}
