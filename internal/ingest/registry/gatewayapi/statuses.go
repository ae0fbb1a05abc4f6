package gatewayapi

import (
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// Names of the controllers in GatewayClass.spec.controllerName and in statuses.
const (
	// ControllerName is the controller of the classes for which gateways are deployed. Routes whose
	// parents are Services or ServiceEntries carry it too.
	ControllerName = "istio.io/gateway-controller"
	// UnmanagedControllerName is the controller of the class istio-remote, for gateways that run
	// elsewhere.
	UnmanagedControllerName = "istio.io/unmanaged-gateway"
	// MeshControllerName is the controller in the entries of policies for their targets, as in
	// Istio. It applies the policies to the mesh.
	MeshControllerName = "istio.io/mesh-controller"
)

// Status is the desired status of one object. It is immutable.
type Status struct {
	// Generation is the metadata.generation of the object that the status was computed from. All
	// conditions have it as observedGeneration.
	Generation int64
	// Value is one of *gatewayv1.GatewayClassStatus, *gatewayv1.GatewayStatus,
	// *gatewayv1.ListenerSetStatus, *gatewayv1.RouteStatus (for all five kinds of routes),
	// *gatewayv1.PolicyStatus, *inferencev1.InferencePoolStatus, *gatewayx.MeshStatus and
	// *gatewayx.BackendStatus. It contains only the entries of this project's controllers: a writer
	// keeps the parents and ancestors of other controllers, and conditions of other types.
	// LastTransitionTime is zero: the writer keeps the time that the object has while the
	// condition's status stays the same.
	//
	// A status without parents is desired for a route, InferencePool or XBackend that no longer has
	// a parent of this controller: the writer removes our entries from the object.
	Value any
}

// Statuses are the desired statuses of all objects of this controller by key. Get returns nil for
// an object without a status of this controller.
type Statuses = cow.Map[config.Key, *Status]
