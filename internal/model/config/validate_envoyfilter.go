package config

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

type (
	filterMatch = networking.EnvoyFilter_EnvoyConfigObjectMatch
	filterPatch = networking.EnvoyFilter_EnvoyConfigObjectPatch
)

// checkEnvoyFilter adds Errors and Warnings for the parts of an EnvoyFilter that do not depend on
// Envoy's own types: its selector, targetRefs and patches. targetRefs beside workloadSelector is an
// Error, and no patches a Warning. The translation checks whether a value is valid for the patched
// object.
func (r *report) checkEnvoyFilter(at path, filter *networking.EnvoyFilter) {
	if selector := filter.GetWorkloadSelector(); selector != nil {
		r.checkMatchLabels(at.Child("workloadSelector", "labels"), selector.GetLabels(), true)
		if len(filter.GetTargetRefs()) > 0 {
			r.errorf(at.Child("targetRefs"), "must not be set together with workloadSelector")
		}
	}
	r.checkTargetRefs(at.Child("targetRefs"), filter.GetTargetRefs())
	if len(filter.GetConfigPatches()) == 0 {
		r.warnf(at.Child("configPatches"), "is empty, so nothing is changed")
	}
	for i, patch := range filter.GetConfigPatches() {
		r.checkEnvoyPatch(at.Child("configPatches").Index(i), patch)
	}
}

// checkEnvoyPatch adds Errors for a patch of an EnvoyFilter: a missing applyTo, patch, operation or
// value (REMOVE needs none), and an invalid match (checkEnvoyMatch, which also adds Warnings). It
// stops at a missing applyTo, patch or operation. Operations and filter classes without effect are
// Warnings, as are inserts where the order has no effect.
func (r *report) checkEnvoyPatch(at path, patch *filterPatch) {
	applyTo := patch.GetApplyTo()
	if _, known := networking.EnvoyFilter_ApplyTo_name[int32(applyTo)]; !known ||
		applyTo == networking.EnvoyFilter_INVALID {
		r.errorf(at.Child("applyTo"), "is required")
		return
	}
	if match := patch.GetMatch(); match != nil {
		r.checkEnvoyMatch(at.Child("match"), applyTo, match)
	}
	here := at.Child("patch")
	if patch.GetPatch() == nil {
		r.errorf(here, "is required")
		return
	}
	operation := patch.GetPatch().GetOperation()
	if operation == networking.EnvoyFilter_Patch_INVALID {
		r.errorf(here.Child("operation"), "is required")
		return
	}
	if operation != networking.EnvoyFilter_Patch_REMOVE && patch.GetPatch().GetValue() == nil {
		r.errorf(here.Child("value"), "is required for operation %s", operation)
	}
	switch {
	case slices.Contains(operationsOn(applyTo), operation):
	case slices.Contains(insertOperations(), operation) && ignoresOrder(applyTo):
		r.warnf(here.Child("operation"), "%s is the same as ADD for %s: their order has no effect", operation, applyTo)
	default:
		r.warnf(here.Child("operation"), "%s cannot be applied to %s, so the patch has no effect", operation, applyTo)
	}
	if patch.GetPatch().GetFilterClass() != networking.EnvoyFilter_Patch_UNSPECIFIED {
		switch {
		case operation != networking.EnvoyFilter_Patch_ADD:
			r.warnf(here.Child("filterClass"), "has an effect with operation ADD only")
		case applyTo != networking.EnvoyFilter_HTTP_FILTER && applyTo != networking.EnvoyFilter_NETWORK_FILTER:
			r.warnf(here.Child("filterClass"), "has an effect for applyTo HTTP_FILTER and NETWORK_FILTER only")
		}
	}
}

// insertOperations returns the operations that insert at a position.
func insertOperations() []networking.EnvoyFilter_Patch_Operation {
	return []networking.EnvoyFilter_Patch_Operation{
		networking.EnvoyFilter_Patch_INSERT_BEFORE,
		networking.EnvoyFilter_Patch_INSERT_AFTER,
		networking.EnvoyFilter_Patch_INSERT_FIRST,
	}
}

// ignoresOrder reports whether the order of such objects has no effect in Envoy: of listeners,
// filter chains, virtual hosts and clusters.
func ignoresOrder(applyTo networking.EnvoyFilter_ApplyTo) bool {
	switch applyTo {
	case networking.EnvoyFilter_LISTENER,
		networking.EnvoyFilter_FILTER_CHAIN,
		networking.EnvoyFilter_VIRTUAL_HOST,
		networking.EnvoyFilter_CLUSTER:
		return true
	default:
		return false
	}
}

// operationsOn returns the operations that have an effect on a class of objects
// (EnvoyFilter.Patch.Operation). MERGE and MERGE_AND_REPLACE_LIST have one on all but extension
// configs, ADD on all but the bootstrap and route configurations. REMOVE has one on the same
// objects as ADD but extension configs. Only filters and routes have inserts, and only filters,
// virtual hosts and extension configs REPLACE.
func operationsOn(applyTo networking.EnvoyFilter_ApplyTo) []networking.EnvoyFilter_Patch_Operation {
	const (
		merge   = networking.EnvoyFilter_Patch_MERGE
		lists   = networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST
		add     = networking.EnvoyFilter_Patch_ADD
		remove  = networking.EnvoyFilter_Patch_REMOVE
		before  = networking.EnvoyFilter_Patch_INSERT_BEFORE
		after   = networking.EnvoyFilter_Patch_INSERT_AFTER
		first   = networking.EnvoyFilter_Patch_INSERT_FIRST
		replace = networking.EnvoyFilter_Patch_REPLACE
	)
	switch applyTo {
	case networking.EnvoyFilter_BOOTSTRAP, networking.EnvoyFilter_ROUTE_CONFIGURATION:
		return []networking.EnvoyFilter_Patch_Operation{merge, lists}
	case networking.EnvoyFilter_EXTENSION_CONFIG:
		return []networking.EnvoyFilter_Patch_Operation{add, replace}
	case networking.EnvoyFilter_VIRTUAL_HOST:
		return []networking.EnvoyFilter_Patch_Operation{merge, lists, add, remove, replace}
	case networking.EnvoyFilter_HTTP_FILTER,
		networking.EnvoyFilter_NETWORK_FILTER,
		networking.EnvoyFilter_LISTENER_FILTER:
		return []networking.EnvoyFilter_Patch_Operation{merge, lists, add, remove, before, after, first, replace}
	case networking.EnvoyFilter_HTTP_ROUTE:
		return []networking.EnvoyFilter_Patch_Operation{merge, lists, add, remove, before, after, first}
	default:
		return []networking.EnvoyFilter_Patch_Operation{merge, lists, add, remove}
	}
}

// checkEnvoyMatch adds Errors for an invalid match of a patch. A match on waypoint without the
// context WAYPOINT is an Error, as is a match on another class of objects with it (the context
// alone is valid); then only the proxy version is checked besides. A match on another class of
// objects than the patch applies to is an Error, or a Warning if applyTo ignores matches. Fields
// beside a cluster's name are Warnings.
func (r *report) checkEnvoyMatch(at path, applyTo networking.EnvoyFilter_ApplyTo, match *filterMatch) {
	if version := match.GetProxy().GetProxyVersion(); version != "" {
		if len(version) > maxRegexpLength {
			r.warnf(at.Child("proxy", "proxyVersion"), "has %d bytes, more than %d: it matches no proxy",
				len(version), maxRegexpLength)
		} else {
			r.checkRegexp(at.Child("proxy", "proxyVersion"), version)
		}
	}
	waypoint := match.GetContext() == networking.EnvoyFilter_WAYPOINT
	if _, there := match.GetObjectTypes().(*networking.EnvoyFilter_EnvoyConfigObjectMatch_Waypoint); there != waypoint &&
		match.GetObjectTypes() != nil {
		r.errorf(at, "context WAYPOINT and the match on waypoint go together")
		return
	}
	found := matchedClass(match)
	switch wanted := patchedClass(applyTo); {
	case found == "" || waypoint:
	case wanted == "":
		r.warnf(at.Child(found), "is ignored for applyTo %s", applyTo)
	case found != wanted:
		r.errorf(at.Child(found), "cannot be matched for applyTo %s, only %s", applyTo, wanted)
	}
	r.checkOptionalPort(at.Child("cluster", "portNumber"), match.GetCluster().GetPortNumber())
	if c := match.GetCluster(); c.GetName() != "" &&
		(c.GetPortNumber() != 0 || c.GetService() != "" || c.GetSubset() != "") {
		r.warnf(at.Child("cluster"), "beside name, the other fields are ignored")
	}
	r.checkEnvoyListenerMatch(at.Child("listener"), applyTo, match.GetListener())
	r.checkEnvoyRouteMatch(at.Child("routeConfiguration"), match)
}

// matchedClass returns the name of the field that match sets among listener, routeConfiguration,
// cluster and waypoint, or "" if it sets none.
func matchedClass(match *filterMatch) string {
	switch match.GetObjectTypes().(type) {
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_Listener:
		return "listener"
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_RouteConfiguration:
		return "routeConfiguration"
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_Cluster:
		return "cluster"
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_Waypoint:
		return "waypoint"
	default:
		return ""
	}
}

// patchedClass returns the field that a match for applyTo must set. It is listener for listeners,
// filter chains and filters, routeConfiguration for route configurations, virtual hosts and routes,
// and cluster for clusters. For other objects there is none, and it returns "".
func patchedClass(applyTo networking.EnvoyFilter_ApplyTo) string {
	switch applyTo {
	case networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_FILTER_CHAIN, networking.EnvoyFilter_NETWORK_FILTER,
		networking.EnvoyFilter_HTTP_FILTER, networking.EnvoyFilter_LISTENER_FILTER:
		return "listener"
	case networking.EnvoyFilter_ROUTE_CONFIGURATION,
		networking.EnvoyFilter_VIRTUAL_HOST,
		networking.EnvoyFilter_HTTP_ROUTE:
		return "routeConfiguration"
	case networking.EnvoyFilter_CLUSTER:
		return "cluster"
	default:
		return ""
	}
}
