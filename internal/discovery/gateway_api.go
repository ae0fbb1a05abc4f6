package discovery

import (
	"context"
	"net/netip"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/gateway"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/kube/status"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// GatewayAPI configures the use of Gateway API objects. The zero value has Istio's defaults: all
// parts are enabled. All but Off are about writes to an API server.
type GatewayAPI struct {
	// Off ignores Gateways and routes of the Gateway API, except Gateways between networks (set by
	// PILOT_ENABLE_GATEWAY_API=false).
	Off bool
	// NoStatus disables writes to the status of objects (set by
	// PILOT_ENABLE_GATEWAY_API_STATUS=false).
	NoStatus bool
	// NoDeployments disables the deployment of gateways (set by
	// PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER=false).
	NoDeployments bool
	// NoClasses disables the creation of GatewayClasses (set by
	// PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER=false).
	NoClasses bool
	// NoCopiedMetadata keeps labels and annotations of a Gateway that has none in
	// spec.infrastructure from the objects that are deployed for it (set by
	// PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS=false).
	NoCopiedMetadata bool
}

// Limits for requests of the deployment of gateways. A new leader reads and applies about six
// objects per Gateway.
const (
	deploymentQPS   = 50
	deploymentBurst = 100
)

// gatewayWriter deploys Gateways, creates GatewayClasses and writes the status of objects of the
// Gateway API.
type gatewayWriter struct {
	s        *server
	deployer *gateway.Deployer
	classes  *gateway.ClassCreator
}

// newGatewayWriter returns the writer for the Gateway API, or nil if it is off or config objects are
// not read from an API server.
func (s *server) newGatewayWriter() (*gatewayWriter, error) {
	o := s.options
	if s.client == nil || !o.configFromCluster() || o.GatewayAPI.Off {
		return nil, nil
	}
	config := rest.CopyConfig(s.client.Config)
	config.QPS, config.Burst, config.RateLimiter = deploymentQPS, deploymentBurst, nil
	client, err := kube.NewClient(config)
	if err != nil {
		return nil, err
	}
	w := &gatewayWriter{s: s}
	log := s.logs.Scope("gateway")
	w.classes = &gateway.ClassCreator{Client: client, Classes: gateway.DefaultClasses(), Log: log}
	w.deployer = gateway.New(gateway.Options{
		Client: client, Get: w.spec, List: w.specs, Namespace: o.Namespace, Revision: o.Revision,
		CopyMetadata: !o.GatewayAPI.NoCopiedMetadata, Recovery: s.recovery, Log: log,
	})
	return w, nil
}

// run writes while this replica is the leader of the respective task, until ctx ends.
func (w *gatewayWriter) run(ctx context.Context) error {
	if w == nil {
		return nil
	}
	o, elections := w.s.options.GatewayAPI, w.s.elections
	group, ctx := errgroup.WithContext(ctx)
	if !o.NoClasses {
		group.Go(func() error { return elections.Run(ctx, leader.GatewayClasses, w.classes.Run) })
	}
	if !o.NoDeployments {
		// Each revision deploys the Gateways that select it.
		group.Go(func() error {
			return elections.Run(ctx, leader.GatewayDeployments+w.s.options.revisionSuffix(), w.deployer.Run)
		})
	}
	if !o.NoStatus && w.s.status != nil {
		writer, desired := w.s.status.writer, w.desiredStatuses()
		group.Go(func() error {
			return elections.Run(ctx, leader.GatewayStatus, func(ctx context.Context) { writer.LeadGatewayAPI(ctx, desired) })
		})
		if suffix := w.s.options.revisionSuffix(); suffix != "" {
			group.Go(func() error {
				return elections.Run(ctx, leader.GatewayStatus+suffix, func(ctx context.Context) {
					writer.LeadGatewayAPIRevision(ctx, desired)
				})
			})
		}
	}
	return group.Wait()
}

// gatewayDeploymentsChanged notifies the deployer of Gateways whose Deployment has changed.
func (s *server) gatewayDeploymentsChanged(changed []config.Key) {
	if s.gatewayWriter == nil {
		return
	}
	for _, k := range changed {
		s.gatewayWriter.deployer.Notify(types.NamespacedName{Namespace: k.Namespace, Name: k.Name})
	}
}

// gatewayStatusesChanged notifies the status writer.
func (s *server) gatewayStatusesChanged([]config.Key) {
	if s.status != nil {
		s.status.book.Notify()
	}
}

// spec returns what is to be deployed for a Gateway, or nil.
func (w *gatewayWriter) spec(name types.NamespacedName) *gateway.Spec {
	k := config.Key{Kind: api.KubernetesGateway, Namespace: name.Namespace, Name: name.Name}
	if d := w.s.gateways.Deployments().Get(k); d != nil {
		return specOf(d)
	}
	return nil
}

func (w *gatewayWriter) specs() []*gateway.Spec {
	var list []*gateway.Spec
	for _, d := range w.s.gateways.Deployments().All() {
		list = append(list, specOf(d))
	}
	return list
}

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
		if ref := class.Spec.ParametersRef; ref != nil && ref.Group == "" && ref.Kind == "ConfigMap" && ref.Namespace != nil {
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

// desiredStatuses returns the statuses of the newest batch.
func (w *gatewayWriter) desiredStatuses() status.DesiredStatuses {
	statuses := w.s.gateways.Statuses
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
			return controller == gatewayapi.ControllerName || controller == gatewayapi.UnmanagedControllerName
		},
	}
}
