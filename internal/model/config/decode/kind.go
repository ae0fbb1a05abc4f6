package decode

import (
	"fmt"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// lookUp returns the kind that an object names. If info.Kind is empty, the Problem contains the
// reason. foreign is true for a kind that is not read and is no likely typo (typoOf): its Problem
// is a Warning, or an Error with the successor if Istio has retired the kind. A known kind in a
// version that is not served has an Error too, and info is set.
func lookUp(apiVersion, kind string) (info api.KindInfo, problem config.Problem, foreign bool) {
	fault := func(field, format string, args ...any) config.Problem {
		return config.Problem{Field: field, Reason: fmt.Sprintf(format, args...), Severity: config.Error}
	}
	switch {
	case apiVersion == "":
		return info, fault("apiVersion", "is required"), false
	case kind == "":
		return info, fault("kind", "is required"), false
	}
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		group, version = "", apiVersion
	}
	info, known, served := api.Lookup(group, version, kind)
	switch {
	case known && served:
		return info, config.Problem{}, false
	case known:
		return info, fault(
			"apiVersion",
			"version %q of %s is not served, only %s",
			version,
			kind,
			strings.Join(info.Versions, ", "),
		), false
	}
	if r, ok := retired.KindOf(group, kind); ok {
		return api.KindInfo{}, fault(
			"kind",
			"%s of %s is retired, and objects of it are not used: %s",
			kind,
			group,
			r.Successor,
		), true
	}
	if p, typo := typoOf(group, kind); typo {
		return api.KindInfo{}, fault(p.Field, "%s", p.Reason), false
	}
	problem = fault("kind", "%s of %s is not read by meshpilot", kind, apiVersion)
	problem.Severity = config.Warning
	return api.KindInfo{}, problem, true
}

// typoOf returns the Problem of a group and kind that are not read and likely a typo, with a
// suggestion. The bool is false, without a Problem, if they are likely another program's.
//
// They are a typo if the kind resembles a known one of the group, or if the group resembles a known
// one. They are also a typo if the kind is Istio's and the group is empty, ends in .istio.io or
// resembles the kind's own group. Every unknown kind of a known istio.io group is also a typo.
func typoOf(group, kind string) (config.Problem, bool) {
	var groups, kinds []string
	for _, k := range api.Kinds() {
		if k.Group != "" {
			groups = append(groups, k.Group)
		}
		if k.Group == group {
			kinds = append(kinds, k.Kind.Name())
		}
	}
	if len(kinds) > 0 {
		hint := suggestName(kind, kinds)
		// The table contains all kinds of Istio's own groups, so any other kind is an error.
		if hint != "" || strings.HasSuffix(group, ".istio.io") {
			return config.Problem{
				Field:  "kind",
				Reason: fmt.Sprintf("unknown kind %q in group %q%s", kind, group, hint),
			}, true
		}
		return config.Problem{}, false
	}
	for _, k := range api.Kinds() {
		if k.Kind.Name() != kind {
			continue
		}
		if k.Istio() &&
			(group == "" || suggestName(group, []string{k.Group}) != "" || strings.HasSuffix(group, ".istio.io")) {
			return config.Problem{
				Field:  "apiVersion",
				Reason: fmt.Sprintf("kind %s is in group %q, not %q", kind, k.Group, group),
			}, true
		}
	}
	if hint := suggestName(group, groups); hint != "" {
		return config.Problem{Field: "apiVersion", Reason: fmt.Sprintf("unknown group %q%s", group, hint)}, true
	}
	return config.Problem{}, false
}
