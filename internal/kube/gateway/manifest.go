package gateway

import (
	"cmp"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"istio.io/api/annotation"
	"istio.io/api/label"
)

// Labels of all objects of a Gateway.
const (
	nameLabel  = "gateway.networking.k8s.io/gateway-name"
	classLabel = "gateway.networking.k8s.io/gateway-class-name"
	// oldNameLabel is the name label of Istio before 1.24, which policies may still select.
	oldNameLabel = "istio.io/gateway-name"
	// managedLabel marks the objects that gateway controllers of Istio or meshpilot may change.
	managedLabel = "gateway.istio.io/managed"
)

// managedValue is the value of managedLabel: the controller's name in the form of a label value.
const managedValue = "istio.io-gateway-controller"

// statusPort is the port of every gateway Service that answers readiness checks of load balancers.
const statusPort = 15021

// input contains the values from which the manifests of one Gateway are rendered.
type input struct {
	*Spec
	// meta is the Gateway's current metadata.
	meta metav1.Object
	// revision is the control plane's, or empty for the default one.
	revision     string
	copyMetadata bool
}

// manifest is an object to apply, as the API server accepts it in JSON.
type manifest map[string]any

// manifests returns the objects of a Gateway without overlays, in the order of their application.
// The last two, autoscaler and disruption budget, must be dropped unless an overlay requests them.
func (in *input) manifests() []manifest {
	return []manifest{
		in.object("v1", "ServiceAccount", in.serviceAccount(), nil),
		in.object("apps/v1", "Deployment", in.ObjectName, in.deploymentSpec()),
		in.object("v1", "Service", in.ObjectName, in.serviceSpec()),
		in.object("autoscaling/v2", "HorizontalPodAutoscaler", in.ObjectName, manifest{
			"maxReplicas":    1,
			"scaleTargetRef": manifest{"apiVersion": "apps/v1", "kind": "Deployment", "name": in.ObjectName},
		}),
		in.object("policy/v1", "PodDisruptionBudget", in.ObjectName, manifest{
			"selector": manifest{"matchLabels": in.selector()},
		}),
	}
}

// serviceAccount returns the name of the ServiceAccount (ServiceAccountName).
func (in *input) serviceAccount() string {
	return ServiceAccountName(in.meta.GetAnnotations(), in.ObjectName)
}

// ServiceAccountName returns the name of the ServiceAccount of a Gateway with these annotations:
// the one in gateway.istio.io/service-account, or else objectName, the Deployment's name.
func ServiceAccountName(annotations map[string]string, objectName string) string {
	return cmp.Or(annotations[annotation.GatewayServiceAccount.Name], objectName)
}

func (in *input) selector() map[string]string { return map[string]string{nameLabel: in.Gateway.Name} }

// object returns an object with the metadata that all objects of a Gateway have: labels,
// annotations and the Gateway as owner. It has no spec if spec is nil.
func (in *input) object(apiVersion, kind, name string, spec manifest) manifest {
	meta := manifest{
		"name":      name,
		"namespace": in.Gateway.Namespace,
		"labels":    in.labels(),
		"ownerReferences": []any{manifest{
			"apiVersion": gatewayv1.GroupVersion.String(),
			"kind":       "Gateway",
			"name":       in.Gateway.Name,
			"uid":        string(in.meta.GetUID()),
		}},
	}
	if a := in.infrastructureAnnotations(); len(a) > 0 {
		meta["annotations"] = a
	}
	m := manifest{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	if spec != nil {
		m["spec"] = spec
	}
	return m
}

// labels returns the labels of all objects of the Gateway: infrastructureLabels, and the labels
// with its name, class and controller, which take precedence.
func (in *input) labels() map[string]string {
	l := in.infrastructureLabels()
	l[nameLabel], l[classLabel], l[managedLabel] = in.Gateway.Name, in.Class, managedValue
	return l
}

// infrastructureLabels returns the labels in spec.infrastructure, if that field is set, without
// reserved ones (withoutGatewayAPI). Otherwise it returns the Gateway's labels without its revision
// if metadata are copied, and else no labels. The result is never nil, and the caller owns it.
func (in *input) infrastructureLabels() map[string]string {
	if i := in.Infrastructure; i != nil && i.Labels != nil {
		return withoutGatewayAPI(i.Labels)
	}
	if !in.copyMetadata {
		return map[string]string{}
	}
	l := maps.Clone(in.meta.GetLabels())
	if l == nil {
		l = map[string]string{}
	}
	delete(l, label.IoIstioRev.Name) // The pod template has the revision of this control plane.
	return l
}

// infrastructureAnnotations returns the annotations in spec.infrastructure, if that field is set,
// without reserved ones (withoutGatewayAPI). Otherwise it returns the Gateway's if metadata are
// copied, and else nil. Annotations about the deployment itself are left out.
func (in *input) infrastructureAnnotations() map[string]string {
	if i := in.Infrastructure; i != nil && i.Annotations != nil {
		return withoutDeploymentAnnotations(withoutGatewayAPI(i.Annotations))
	}
	if !in.copyMetadata {
		return nil
	}
	return withoutDeploymentAnnotations(maps.Clone(in.meta.GetAnnotations()))
}

// withoutDeploymentAnnotations deletes the annotations about the deployment itself from a and
// returns a: the last applied configuration, controller version, name override and service account.
func withoutDeploymentAnnotations(a map[string]string) map[string]string {
	for _, name := range []string{
		corev1.LastAppliedConfigAnnotation,
		annotation.GatewayControllerVersion.Name,
		annotation.GatewayNameOverride.Name,
		annotation.GatewayServiceAccount.Name,
	} {
		delete(a, name)
	}
	return a
}

// withoutGatewayAPI returns a copy of the entries without names below "gateway.networking.k8s.io/",
// which the Gateway API reserves for itself. The result is never nil.
func withoutGatewayAPI[K, V ~string](entries map[K]V) map[string]string {
	out := make(map[string]string, len(entries))
	for k, v := range entries {
		if !strings.HasPrefix(string(k), gatewayv1.GroupName+"/") {
			out[string(k)] = string(v)
		}
	}
	return out
}

// deploymentSpec returns the spec of the Deployment. Its container has the name of the proxy in the
// injection template, which adds the image and everything else. It has the ports of metrics and
// status, and no privileges; a sysctl permits ports below 1024. A network label of the Gateway
// becomes the requested network view.
func (in *input) deploymentSpec() manifest {
	container := manifest{
		"name":  "istio-proxy",
		"image": "auto", // replaced by injection
		"ports": []any{
			manifest{"name": "metrics", "containerPort": 15020, "protocol": "TCP"},
			manifest{"name": "status-port", "containerPort": statusPort, "protocol": "TCP"},
			manifest{"name": "http-envoy-prom", "containerPort": 15090, "protocol": "TCP"},
		},
		"securityContext": restrictedContainer(),
	}
	if network := in.infrastructureLabels()[label.TopologyNetwork.Name]; network != "" {
		container["env"] = []any{manifest{"name": "ISTIO_META_REQUESTED_NETWORK_VIEW", "value": network}}
	}
	return manifest{
		"selector": manifest{"matchLabels": in.selector()},
		"template": manifest{
			"metadata": manifest{"labels": in.podLabels(), "annotations": in.podAnnotations()},
			"spec": manifest{
				"serviceAccountName": in.serviceAccount(),
				// Ports below 1024 without a privilege.
				"securityContext": manifest{
					"seccompProfile": manifest{"type": string(corev1.SeccompProfileTypeRuntimeDefault)},
					"sysctls": []any{
						manifest{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"},
					},
				},
				"containers": []any{container},
			},
		},
	}
}

// restrictedContainer returns the security context that the Pod Security Standard "restricted"
// demands of a container, with a read-only root. An overlay can replace it.
func restrictedContainer() manifest {
	return manifest{
		"allowPrivilegeEscalation": false,
		"capabilities":             manifest{"drop": []any{"ALL"}},
		"privileged":               false,
		"readOnlyRootFilesystem":   true,
		"runAsNonRoot":             true,
	}
}

// podLabels returns the labels of the Gateway's pods: the labels of all its objects, which may
// override the canonical name and revision of the service. It adds oldNameLabel and the labels that
// make the webhook inject the pod, which cannot be overridden.
func (in *input) podLabels() map[string]string {
	l := map[string]string{
		label.ServiceCanonicalName.Name:     in.ObjectName,
		label.ServiceCanonicalRevision.Name: "latest",
	}
	maps.Copy(l, in.labels())
	l[oldNameLabel] = in.Gateway.Name
	l[label.SidecarInject.Name] = "true"
	if in.revision != "" {
		l[label.IoIstioRev.Name] = in.revision
	}
	return l
}

// podAnnotations returns the annotations of the Gateway's pods: infrastructureAnnotations, which
// may override the settings for Prometheus, and the injection template.
func (in *input) podAnnotations() map[string]string {
	a := map[string]string{
		"prometheus.io/path":   "/stats/prometheus",
		"prometheus.io/port":   "15020",
		"prometheus.io/scrape": "true",
	}
	maps.Copy(a, in.infrastructureAnnotations())
	a[annotation.InjectTemplates.Name] = "gateway"
	return a
}

// serviceSpec returns the spec of the Service, whose type is in an annotation of the Gateway, by
// default LoadBalancer. The first address of the Spec becomes the address of a load balancer, the
// others are external IPs. With another type they have no effect, as in Istio: as external IPs they
// would receive the traffic of the cluster to these addresses.
func (in *input) serviceSpec() manifest {
	kind := cmp.Or(in.meta.GetAnnotations()[annotation.NetworkingServiceType.Name],
		string(corev1.ServiceTypeLoadBalancer))
	spec := manifest{
		"type":     kind,
		"selector": in.selector(),
		"ports":    in.servicePorts(),
		// One family where the cluster has one.
		"ipFamilyPolicy": string(corev1.IPFamilyPolicyPreferDualStack),
	}
	if kind != string(corev1.ServiceTypeLoadBalancer) || len(in.Addresses) == 0 {
		return spec
	}
	// A load balancer has one address; further ones have to be routed to the nodes.
	spec["loadBalancerIP"] = in.Addresses[0]
	if further := in.Addresses[1:]; len(further) > 0 {
		spec["externalIPs"] = further
	}
	return spec
}

// servicePorts returns the ports of the Service: the port for readiness, then the ports of the
// Spec.
func (in *input) servicePorts() []any {
	tcp := "tcp"
	list := append([]corev1.ServicePort{{
		Name: "status-port", Port: statusPort, Protocol: corev1.ProtocolTCP, AppProtocol: &tcp,
	}}, in.Ports...)
	out := make([]any, 0, len(list))
	for _, p := range list {
		port := manifest{"name": p.Name, "port": p.Port, "protocol": string(p.Protocol)}
		if p.AppProtocol != nil {
			port["appProtocol"] = *p.AppProtocol
		}
		out = append(out, port)
	}
	return out
}
