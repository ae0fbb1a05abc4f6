package check

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// oldestKubernetes is the oldest release of Kubernetes that the charts are tested with: the first
// with native sidecars enabled.
const oldestKubernetes = "1.29"

// apiServerAnswers fails if the API server does not return its version.
func apiServerAnswers(ctx context.Context, t *Target) outcome {
	_, err := t.Client.Kubernetes.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return fail("%s: %v", t.Client.Config.Host, err)
	}
	return pass("%s", t.Client.Config.Host)
}

// kubernetesSupported fails if the API server is older than oldestKubernetes or does not answer. It
// is skipped if the version cannot be parsed, or without permission.
func kubernetesSupported(ctx context.Context, t *Target) outcome {
	v, err := t.Client.Kubernetes.Discovery().ServerVersionWithContext(ctx)
	if err != nil {
		return requestFailed(err)
	}
	parsed, err := version.ParseGeneric(v.GitVersion)
	if err != nil {
		return skip("version %q: %v", v.GitVersion, err)
	}
	if parsed.LessThan(version.MustParseGeneric(oldestKubernetes)) {
		return fail("Kubernetes %s is older than %s", v.GitVersion, oldestKubernetes)
	}
	return pass("Kubernetes %s", v.GitVersion)
}

// permission is an action that is asked about.
type permission struct{ verb, group, resource, subresource, namespace string }

// missingPermissions returns a text for each permission of list that the API server denies the
// user. It returns the first error of a request, without texts.
func (t *Target) missingPermissions(ctx context.Context, list []permission) (findings, error) {
	var missing findings
	for _, p := range list {
		r := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: p.verb, Group: p.group, Resource: p.resource, Subresource: p.subresource, Namespace: p.namespace,
			},
		}}
		r, err := t.Client.Kubernetes.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, r,
			metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if !r.Status.Allowed {
			missing.add("may not %s %s", p.verb, strings.Trim(p.resource+"/"+p.subresource, "/"))
		}
	}
	return missing, nil
}

// canReadControlPlane warns of each permission that pilotctl uses and the user does not have. It
// fails, or is skipped without permission to ask, only if they cannot be determined.
func canReadControlPlane(ctx context.Context, t *Target) outcome {
	missing, err := t.missingPermissions(ctx, []permission{
		{"list", "", "pods", "", t.Namespace},
		// A port-forward over WebSocket is a GET.
		{"get", "", "pods", "portforward", t.Namespace}, {"create", "", "pods", "portforward", t.Namespace},
		{"get", "", "configmaps", "", t.Namespace}, {"get", "", "services", "", t.Namespace},
		{"list", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ""},
		{"list", "apiextensions.k8s.io", "customresourcedefinitions", "", ""},
	})
	if err != nil {
		return requestFailed(err)
	}
	return conclude(nil, missing, "pods, port-forward, ConfigMaps, Services, webhooks, CustomResourceDefinitions")
}

// canInstall fails if the user lacks a permission to create objects of the charts: definitions,
// cluster roles, webhooks and namespaces, and objects in t.Namespace such as Deployments. It also
// fails if the API server does not answer.
func canInstall(ctx context.Context, t *Target) outcome {
	var list []permission
	for _, r := range []string{
		"apiextensions.k8s.io/customresourcedefinitions", "rbac.authorization.k8s.io/clusterroles",
		"rbac.authorization.k8s.io/clusterrolebindings",
		"admissionregistration.k8s.io/mutatingwebhookconfigurations",
		"admissionregistration.k8s.io/validatingwebhookconfigurations", "/namespaces",
	} {
		group, resource, _ := strings.Cut(r, "/")
		list = append(list, permission{"create", group, resource, "", ""})
	}
	for _, r := range []string{"/serviceaccounts", "/services", "/configmaps", "/secrets", "apps/deployments",
		"policy/poddisruptionbudgets"} {
		group, resource, _ := strings.Cut(r, "/")
		list = append(list, permission{"create", group, resource, "", t.Namespace})
	}
	missing, err := t.missingPermissions(ctx, list)
	if err != nil {
		return requestFailed(err)
	}
	return conclude(missing, nil, "%d kinds of objects can be created", len(list))
}

// installedVersions returns the served versions of all installed CustomResourceDefinitions, by
// their names PLURAL.GROUP. An error of listing is returned as it is.
func (t *Target) installedVersions(ctx context.Context) (map[string][]string, error) {
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	list, err := t.Client.Dynamic.Resource(crds).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	served := map[string][]string{}
	for _, crd := range list.Items {
		served[crd.GetName()] = servedVersions(crd.Object)
	}
	return served, nil
}

// servedVersions returns the names of the versions that a CustomResourceDefinition serves. Parts of
// another form are skipped; the result is nil without a served version.
func servedVersions(crd map[string]any) []string {
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	var served []string
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["served"] == true {
			name, _ := v["name"].(string)
			served = append(served, name)
		}
	}
	return served
}

// compareKinds fails if an installed kind of Istio or the Gateway API serves none of the versions
// that the control plane reads. If required is set, it also fails for each of Istio's kinds that is
// not installed. It is skipped without permission to list the definitions, and fails if they cannot
// be listed.
func (t *Target) compareKinds(ctx context.Context, required bool) outcome {
	served, err := t.installedVersions(ctx)
	if err != nil {
		return requestFailed(err)
	}
	var wrong findings
	count := 0
	for _, k := range api.Kinds() {
		if !strings.Contains(k.Group, ".istio.io") && !strings.HasSuffix(k.Group, "gateway.networking.k8s.io") {
			continue
		}
		versions, installed := served[k.Plural+"."+k.Group]
		switch {
		case !installed && required && k.Istio():
			wrong.add("%s.%s is not installed", k.Plural, k.Group)
		case installed && !slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(k.Versions, v) }):
			wrong.add("%s.%s serves %s, and %s is read", k.Plural, k.Group, strings.Join(versions, ", "),
				strings.Join(k.Versions, ", "))
		case installed:
			count++
		}
	}
	return conclude(wrong, nil, "%d kinds", count)
}

// kindsInstalled fails for Istio's kinds that are not installed, and for kinds without a version
// that the control plane reads.
func kindsInstalled(ctx context.Context, t *Target) outcome { return t.compareKinds(ctx, true) }

// installedKindsCurrent fails for installed kinds without a version that the control plane reads.
func installedKindsCurrent(ctx context.Context, t *Target) outcome { return t.compareKinds(ctx, false) }

// revisionFree warns if a pod of the control plane runs in the namespace already, with the revision
// if one is set. It is skipped without permission to list pods, and fails if they cannot be listed.
func revisionFree(ctx context.Context, t *Target) outcome {
	pods, err := connect.Pods(ctx, t.Client, t.Namespace, t.Revision)
	switch {
	case errors.Is(err, connect.ErrNoPods):
		return pass("no control plane runs in %s", t.Namespace)
	case err != nil:
		return requestFailed(err)
	}
	return warn("pod %s/%s runs with revision %q", t.Namespace, pods[0].Name, pods[0].Labels["istio.io/rev"])
}

// serviceName returns the name of the control plane's Service: istiod-REVISION, or istiod for the
// default or no revision.
func (t *Target) serviceName() string {
	if t.Revision != "" && t.Revision != "default" {
		return "istiod-" + t.Revision
	}
	return "istiod"
}

// serviceHasEndpoints fails if the control plane's Service has no ready endpoint, or if the Service
// is missing or cannot be read. It is skipped without permission.
func serviceHasEndpoints(ctx context.Context, t *Target) outcome {
	if _, err := t.Client.Kubernetes.CoreV1().Services(t.Namespace).Get(ctx, t.serviceName(),
		metav1.GetOptions{}); err != nil {
		return requestFailed(err)
	}
	n, err := t.readyEndpoints(ctx, t.Namespace, t.serviceName())
	switch {
	case err != nil:
		return requestFailed(err)
	case n == 0:
		return fail("Service %s/%s has no ready endpoint", t.Namespace, t.serviceName())
	}
	return pass("%d ready", n)
}

// readyEndpoints returns the number of addresses of ready endpoints of a Service. An endpoint
// without a condition is ready.
func (t *Target) readyEndpoints(ctx context.Context, namespace, service string) (int, error) {
	slices, err := t.Client.Kubernetes.DiscoveryV1().EndpointSlices(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				n += len(e.Addresses)
			}
		}
	}
	return n, nil
}

// dnsSelector is the label selector of the cluster's DNS: of its Services and of its pods.
const dnsSelector = "k8s-app=kube-dns"

// dnsRuns passes if any Service of the cluster's DNS, by dnsSelector in kube-system, has a ready
// endpoint, and fails if none has. It warns if there is no such Service. If they cannot be read, it
// fails, or is skipped without permission.
func dnsRuns(ctx context.Context, t *Target) outcome {
	list, err := t.Client.Kubernetes.CoreV1().Services(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{LabelSelector: dnsSelector})
	if err != nil {
		return requestFailed(err)
	}
	if len(list.Items) == 0 {
		return warn("no Service in %s has the label %s", metav1.NamespaceSystem, dnsSelector)
	}
	for i := range list.Items {
		n, err := t.readyEndpoints(ctx, metav1.NamespaceSystem, list.Items[i].Name)
		if err != nil {
			return requestFailed(err)
		}
		if n > 0 {
			return pass("Service %s has %d ready endpoints", list.Items[i].Name, n)
		}
	}
	return fail("Service %s/%s has no ready endpoint", metav1.NamespaceSystem, list.Items[0].Name)
}

// dnsPort is the port of the cluster's DNS.
const dnsPort = 53

// dnsResolves fails if a pod of the cluster's DNS does not resolve the name of the control plane's
// Service, over TCP. It is skipped if no such pod runs. If pods cannot be listed, it fails, or is
// skipped without permission.
func dnsResolves(ctx context.Context, t *Target) outcome {
	pods, err := t.Client.Kubernetes.CoreV1().Pods(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{LabelSelector: dnsSelector})
	if err != nil {
		return requestFailed(err)
	}
	i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if i < 0 {
		return skip("no pod of the cluster's DNS runs in %s", metav1.NamespaceSystem)
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return t.DialPod(ctx, &pods.Items[i], dnsPort)
	}}
	name := fmt.Sprintf("%s.%s.svc.cluster.local.", t.serviceName(), t.Namespace)
	addresses, err := resolver.LookupHost(ctx, name)
	if err != nil {
		return fail("pod %s: %v", pods.Items[i].Name, err)
	}
	return pass("%s is %s", strings.TrimSuffix(name, "."), strings.Join(addresses, ", "))
}
