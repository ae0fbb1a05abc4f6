package controller

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/gateway"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/kube/status"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Limits for requests of the deployment of gateways. A new leader reads and applies about six
// objects per Gateway.
const (
	deploymentQPS   = 50
	deploymentBurst = 100
)

// Options are the settings and dependencies of a Controller.
type Options struct {
	// WriteStatus, Deploy and CreateClasses select the tasks. CopyMetadata copies labels and
	// annotations of a Gateway that has none in spec.infrastructure to the objects that are
	// deployed for it.
	WriteStatus, Deploy, CreateClasses, CopyMetadata bool
	// Namespace and Revision identify the control plane.
	Namespace, Revision string

	// Client accesses the API server. Deployments use their own connections and rate limit.
	Client *kube.Client
	// Elections elects the replica that runs each task.
	Elections *leader.Elections
	// Converter has the Gateways to deploy and the statuses to write.
	Converter *gatewayapi.Converter
	// Status writes statuses.
	Status *status.Writer

	Recovery *recovery.Recorder
	Log      *slog.Logger
}

// Controller deploys Gateways, creates GatewayClasses and writes the status of objects of the
// Gateway API.
type Controller struct {
	o        Options
	deployer *gateway.Deployer
	classes  *gateway.ClassCreator
}

// New returns a Controller. It sends no request. It returns an error if the Client's configuration
// is invalid.
func New(o Options) (*Controller, error) {
	client, err := o.Client.WithRateLimit(deploymentQPS, deploymentBurst)
	if err != nil {
		return nil, err
	}
	c := &Controller{o: o, classes: &gateway.ClassCreator{Client: client, Classes: gateway.DefaultClasses(),
		Log: o.Log}}
	c.deployer = gateway.New(gateway.Options{
		Client: client, Get: c.spec, List: c.specs, Namespace: o.Namespace, Revision: o.Revision,
		CopyMetadata: o.CopyMetadata, Recovery: o.Recovery, Log: o.Log,
	})
	return c, nil
}

// Run performs each enabled task while this replica is its leader, until ctx ends, and returns at
// once if no task is enabled. Creation of GatewayClasses has one election, deployments one per
// revision, statuses one and another for a revision other than default. It returns the first error
// of an election, which ends the others.
func (c *Controller) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	elect := func(task string, run func(context.Context)) {
		group.Go(func() error { return c.o.Elections.Run(ctx, task, run) })
	}
	suffix := ""
	if r := c.o.Revision; r != "" && r != "default" {
		suffix = "-" + r
	}
	if c.o.CreateClasses {
		elect(leader.GatewayClasses, c.classes.Run)
	}
	if c.o.Deploy {
		elect(leader.GatewayDeployments+suffix, c.deployer.Run) // Each revision deploys the Gateways that select it.
	}
	if c.o.WriteStatus {
		desired := c.desiredStatuses()
		elect(leader.GatewayStatus, func(ctx context.Context) { c.o.Status.LeadGatewayAPI(ctx, desired) })
		if suffix != "" {
			elect(leader.GatewayStatus+suffix,
				func(ctx context.Context) { c.o.Status.LeadGatewayAPIRevision(ctx, desired) })
		}
	}
	return group.Wait()
}

// NotifyDeployments makes the deployer look again at the Gateways with these keys.
func (c *Controller) NotifyDeployments(changed []config.Key) {
	for _, k := range changed {
		c.deployer.Notify(types.NamespacedName{Namespace: k.Namespace, Name: k.Name})
	}
}

// spec returns what to deploy for a Gateway, or nil if nothing must be deployed for it.
func (c *Controller) spec(name types.NamespacedName) *gateway.Spec {
	k := config.Key{Kind: api.KubernetesGateway, Namespace: name.Namespace, Name: name.Name}
	if d := c.o.Converter.Deployments().Get(k); d != nil {
		return specOf(d)
	}
	return nil
}

// specs returns what to deploy for all Gateways, in no particular order.
func (c *Controller) specs() []*gateway.Spec {
	var list []*gateway.Spec
	for _, d := range c.o.Converter.Deployments().All() {
		list = append(list, specOf(d))
	}
	return list
}

// specOf returns what to deploy for a Gateway: its addresses and ports, its parameters and the
// parameters of its class. Parameters of the class are used only if they name a ConfigMap with a
// namespace, and addresses only if they are IP addresses.
func specOf(d *gatewayapi.Deployment) *gateway.Spec {
	object := config.Spec[*gatewayv1.Gateway](d.Gateway)
	s := &gateway.Spec{
		Gateway:        types.NamespacedName{Namespace: d.Gateway.Namespace, Name: d.Gateway.Name},
		Class:          d.Class,
		ObjectName:     gatewayapi.ServiceName(d.Gateway, d.Class),
		Infrastructure: object.Spec.Infrastructure,
	}
	if d.ClassObject != nil {
		class := config.Spec[*gatewayv1.GatewayClass](d.ClassObject)
		if ref := class.Spec.ParametersRef; ref != nil && ref.Group == "" && ref.Kind == "ConfigMap" &&
			ref.Namespace != nil {
			s.ClassParameters = &types.NamespacedName{Namespace: string(*ref.Namespace), Name: ref.Name}
		}
	}
	for _, a := range object.Spec.Addresses {
		if _, err := netip.ParseAddr(a.Value); err == nil {
			s.Addresses = append(s.Addresses, a.Value)
		}
	}
	for _, p := range d.Ports {
		s.Ports = append(s.Ports, corev1.ServicePort{
			Name: p.Name, Port: int32(p.Number), Protocol: p.Protocol, AppProtocol: &p.AppProtocol,
		})
	}
	return s
}

// desiredStatuses returns functions that read the statuses of the newest batch whenever they are
// called. Get returns false for an object without a status. Kinds returns the kinds of objects with
// one, and IsOwn reports true for the controllers of this project.
func (c *Controller) desiredStatuses() status.DesiredStatuses {
	statuses := c.o.Converter.Statuses
	return status.DesiredStatuses{
		Get: func(k config.Key) (status.Desired, bool) {
			d := statuses().Get(k)
			if d == nil {
				return status.Desired{}, false
			}
			return status.Desired{Generation: d.Generation, Value: d.Value}, true
		},
		Kinds: func() map[api.Kind]struct{} {
			kinds := map[api.Kind]struct{}{}
			for k := range statuses().All() {
				kinds[k.Kind] = struct{}{}
			}
			return kinds
		},
		IsOwn: func(controller string) bool {
			return slices.Contains([]string{
				gatewayapi.ControllerName, gatewayapi.UnmanagedControllerName, gatewayapi.MeshControllerName,
			}, controller)
		},
	}
}
