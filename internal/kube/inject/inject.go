package inject

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"istio.io/api/annotation"
	"istio.io/api/label"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/kube/inject/render"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Settings are all inputs of injection at one moment. They are read-only.
type Settings struct {
	Config *Config
	Values Values
	Mesh   *meshconfig.MeshConfig
	// ProxyConfigs are the ProxyConfig objects.
	ProxyConfigs []*config.Config
	// Revision is the control plane's; empty for the default one.
	Revision string
	// Compliance is the compliance policy (COMPLIANCE_POLICY).
	Compliance string
}

// Request is one pod to inject.
type Request struct {
	// Pod is not modified. Namespace applies if the pod has none.
	Pod       *corev1.Pod
	Namespace string
	// Owner is the pod's workload. If nil, it is derived from the pod.
	Owner *Owner
	// Env are environment variables for the proxy from the webhook's path, see [ParsePathEnv].
	Env map[string]string
	// NativeSidecars is true if the nodes support native sidecars.
	NativeSidecars bool
	// Users are the proxy's user and group IDs (default 1337).
	Users Users
	// AssignsUsers is true if the platform assigns user IDs to containers, as OpenShift does.
	AssignsUsers bool
}

// Result is an injected pod.
type Result struct {
	Pod *corev1.Pod
	// Warnings are about settings of the pod that have no effect or an unexpected one.
	Warnings []string
}

// Inject returns the pod with its templates applied, the user's own settings of injected containers
// over them, and the changes of finishPod; and warnings. It does not call [Config.Decide], and does
// not change r. It returns an error for invalid annotations, failing templates and a pod without
// containers.
func (s *Settings) Inject(r Request) (Result, error) {
	j, err := s.newInjection(r)
	if err != nil {
		return Result{}, err
	}
	merged, injected, err := j.renderTemplates()
	if err != nil {
		return Result{}, err
	}
	if merged, err = applyOverrides(merged, j.pod, injected, j.previous, j.overrides); err != nil {
		return Result{}, err
	}
	matchProxyUser(
		merged,
		userContainer(j.pod, j.previous, j.overrides, proxyContainer),
		j.proxyConfig.InterceptionMode == meshconfig.ProxyConfig_TPROXY ||
			merged.Annotations[annotation.SidecarInterceptionMode.Name] == "TPROXY",
	)
	if err := j.finishPod(merged, injected); err != nil {
		return Result{}, err
	}
	return Result{Pod: merged, Warnings: j.podWarnings()}, nil
}

// injection is the state of one injection.
type injection struct {
	*Settings
	Request
	pod           *corev1.Pod // with its namespace set
	proxyConfig   *meshconfig.ProxyConfig
	ignoredConfig error // unknown fields of the annotation
	env           map[string]string
	statusPort    int32
	// previous is the status of an earlier injection, or nil. overrides are the user's settings
	// that it stored.
	previous  *status
	overrides *containerOverrides
}

// newInjection copies the pod, and reads its ProxyConfig, its environment and what an earlier
// injection recorded. It returns an error for a value that annotationChecks refuses, and for an
// invalid annotation with the ProxyConfig or overrides. Unknown fields of the annotation
// proxy.istio.io/config are only recorded, in ignoredConfig. An invalid status annotation is taken
// as an empty one.
func (s *Settings) newInjection(r Request) (*injection, error) {
	j := &injection{Settings: s, Request: r, pod: r.Pod.DeepCopy(), env: maps.Clone(r.Env)}
	j.pod.Namespace = cmp.Or(j.pod.Namespace, r.Namespace)
	if r.Namespace == "" {
		j.Namespace = j.pod.Namespace
	}
	if err := checkAnnotations(j.pod.Annotations); err != nil {
		return nil, err
	}
	var err error
	j.proxyConfig, j.ignoredConfig, err = EffectiveProxyConfig(s.Mesh, s.ProxyConfigs, j.pod, j.Namespace)
	if err != nil {
		return nil, err
	}
	j.applyAnnotations()
	j.previous = readStatus(j.pod)
	if j.overrides, err = readOverrides(j.pod); err != nil {
		return nil, err
	}
	j.clearAssignedUser()
	j.setClusterAndNetwork()
	return j, nil
}

// applyAnnotations sets j.statusPort to the pod's annotated status port, or else to that of the
// ProxyConfig. It copies that port and the annotated discovery address to the ProxyConfig, which
// every agent reads. A status port of 0 means no port; it is not copied, because the ProxyConfig
// cannot express that.
func (j *injection) applyAnnotations() {
	j.statusPort = j.proxyConfig.StatusPort
	if port, err := strconv.ParseInt(
		strings.TrimSpace(j.pod.Annotations[annotation.SidecarStatusPort.Name]),
		10,
		32,
	); err == nil {
		j.statusPort = int32(port)
	}
	if j.statusPort != 0 {
		j.proxyConfig.StatusPort = j.statusPort
	}
	if address := j.pod.Annotations[annotation.SidecarDiscoveryAddress.Name]; address != "" {
		j.proxyConfig.DiscoveryAddress = address
	}
}

// setClusterAndNetwork sets ISTIO_META_CLUSTER_ID and ISTIO_META_NETWORK in j.env, which contains
// the variables of the webhook's path, and removes them if they are empty. The webhook's path
// overrides the values. For the network, a non-empty label of the pod overrides both.
func (j *injection) setClusterAndNetwork() {
	if j.env == nil {
		j.env = map[string]string{}
	}
	for name, value := range map[string]string{
		"ISTIO_META_CLUSTER_ID": j.Values.injector.Global.MultiCluster.ClusterName,
		"ISTIO_META_NETWORK":    j.Values.injector.Global.Network,
	} {
		if value = cmp.Or(j.env[name], value); value != "" {
			j.env[name] = value
		} else {
			delete(j.env, name)
		}
	}
	if n, ok := j.pod.Labels[label.TopologyNetwork.Name]; ok && n != "" {
		j.env["ISTIO_META_NETWORK"] = n
	}
}

// renderTemplates returns the pod merged with its templates, in their order, and the merged
// templates alone. It returns an error for a missing, failing or invalid template. j.pod is not
// modified, and is itself the first result if no template is named. If a template has a native
// proxy as init container, the pod's own container of the proxy is first moved to the init
// containers.
func (j *injection) renderTemplates() (merged, injected *corev1.Pod, err error) {
	data := j.templateData()
	merged, injected = j.pod, &corev1.Pod{}
	for _, name := range j.templateNames() {
		t, err := j.Config.lookupTemplate(name)
		if err != nil {
			return nil, nil, err
		}
		text, err := t.Execute(data)
		if err != nil {
			return nil, nil, err
		}
		part, err := parseTemplateOutput(text)
		if err != nil {
			return nil, nil, fmt.Errorf("template %q: %w", name, err)
		}
		if injected, err = mergeIntoPod(injected, part); err != nil {
			return nil, nil, fmt.Errorf("template %q: %w", name, err)
		}
		if j.usesNativeSidecar() && findContainer(injected.Spec.InitContainers, proxyContainer) != nil {
			merged = moveToInit(merged, proxyContainer)
		}
		if merged, err = mergeIntoPod(merged, part); err != nil {
			return nil, nil, fmt.Errorf("template %q: %w", name, err)
		}
	}
	return merged, injected, nil
}

// moveToInit returns a copy of the pod with the named container moved to the init containers, where
// the template has it. It returns the pod itself if it has no such container.
func moveToInit(pod *corev1.Pod, name string) *corev1.Pod {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, pod.Spec.Containers[i])
	pod.Spec.Containers = slices.Delete(pod.Spec.Containers, i, i+1)
	return pod
}

// templateNames returns the templates that the pod names, or the default ones, with aliases
// resolved once. It does not check that they exist. An annotation with an empty value names the
// template "".
func (j *injection) templateNames() []string {
	names := j.Config.DefaultTemplates
	if value, ok := j.pod.Annotations[annotation.InjectTemplates.Name]; ok {
		names = strings.Split(value, ",")
	}
	var list []string
	for _, n := range names {
		n = strings.TrimSpace(n)
		if others, ok := j.Config.Aliases[n]; ok {
			list = append(list, others...)
		} else {
			list = append(list, n)
		}
	}
	return list
}

// templateData returns the input of the templates. The pod in it is as it was before an earlier
// injection (withoutInjected). Its owner is j.Owner or else podOwner's, user IDs have their
// defaults, and the images follow the pod's annotations. InboundTrafficPolicyMode is localhost or,
// by default, passthrough.
func (j *injection) templateData() render.Data {
	owner := j.Owner
	if owner == nil {
		o := podOwner(j.pod)
		owner = &o
	}
	pod := withoutInjected(j.pod, j.previous, j.overrides, j.statusPortText())
	mode := "passthrough"
	if j.Mesh.GetInboundTrafficPolicy().GetMode() == meshconfig.MeshConfig_InboundTrafficPolicy_LOCALHOST {
		mode = "localhost"
	}
	users := j.Users.withDefaults()
	return render.Data{
		TypeMeta:                 owner.Type,
		DeploymentMeta:           owner.Name,
		ObjectMeta:               pod.ObjectMeta,
		Spec:                     pod.Spec,
		ProxyConfig:              j.proxyConfig,
		MeshConfig:               j.Mesh,
		Values:                   j.Values.Tree,
		Revision:                 j.Revision,
		NativeSidecars:           j.NativeSidecars,
		ProxyImage:               j.Values.proxyImage(j.proxyConfig.GetImage().GetImageType(), pod.Annotations),
		ProxyInitImage:           j.Values.initImage(pod.Annotations),
		ProxyUID:                 users.UID,
		ProxyGID:                 users.GID,
		InboundTrafficPolicyMode: mode,
		CompliancePolicy:         j.Compliance,
	}
}

func (j *injection) statusPortText() string { return strconv.Itoa(int(j.statusPort)) }

// finishPod applies to pod the changes that depend on other containers and so are beyond templates:
// environment, metrics, probes, labels, annotations and container order. It returns an error for
// invalid scrape annotations, invalid probers of an earlier injection, and a pod without
// containers. It writes the status annotation, which lists the containers, volumes and pull secrets
// of injected.
func (j *injection) finishPod(pod, injected *corev1.Pod) error {
	if proxy := findInPod(pod, proxyContainer); proxy != nil {
		setEnv(proxy, j.env)
	}
	if j.statusPort != 0 { // the agent serves no metrics without a port
		if err := mergeMetrics(pod, j.Mesh, j.statusPortText()); err != nil {
			return err
		}
	}
	setSecurePortAnnotation(pod)
	if j.rewritesProbes(pod) {
		if err := rewriteProbes(pod, j.statusPort, j.previous != nil); err != nil {
			return err
		}
	}
	if n, ok := j.env["ISTIO_META_NETWORK"]; ok {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels[label.TopologyNetwork.Name] = n
	}
	text, err := newStatus(&injected.Spec, j.Revision).encodeJSON()
	if err != nil {
		return err
	}
	setAnnotation(pod, annotation.SidecarStatus.Name, text)
	for k, v := range j.Config.Annotations {
		setAnnotation(pod, k, v)
	}
	orderContainers(
		pod,
		j.proxyConfig.GetHoldApplicationUntilProxyStarts().GetValue() ||
			j.Values.injector.Global.Proxy.HoldApplicationUntilProxyStarts,
	)
	if len(pod.Spec.Containers) == 0 {
		return errors.New("the pod has no containers")
	}
	return nil
}

// rewritesProbes reports whether probes must be rewritten: by the annotation, which a template may
// set, or else by the values. An annotation that is not a boolean does not count. It returns false
// if the agent has no status port.
func (j *injection) rewritesProbes(pod *corev1.Pod) bool {
	on, err := strconv.ParseBool(pod.Annotations[annotation.SidecarRewriteAppHTTPProbers.Name])
	if err != nil {
		on = j.Values.injector.SidecarInjectorWebhook.RewriteAppHTTPProbe
	}
	return on && j.statusPort != 0
}

// setEnv appends these variables to a container, sorted by name, and removes its other variables of
// the same names.
func setEnv(c *corev1.Container, env map[string]string) {
	c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { _, set := env[e.Name]; return set })
	for _, name := range slices.Sorted(maps.Keys(env)) {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: env[name]})
	}
}

// podWarnings returns warnings for the user, nil if there are none. They are about annotations
// (annotationWarnings), unknown fields of the annotated ProxyConfig, containers that bypass the
// proxy, and a DNS policy other than ClusterFirst or unset.
func (j *injection) podWarnings() []string {
	list := annotationWarnings(j.pod.Annotations)
	if j.ignoredConfig != nil {
		list = append(list, fmt.Sprintf("annotation %s: %v", annotation.ProxyConfig.Name, j.ignoredConfig))
	}
	list = append(list, j.uncapturedWarnings()...)
	if p := j.pod.Spec.DNSPolicy; p != "" && p != corev1.DNSClusterFirst {
		list = append(
			list,
			fmt.Sprintf("spec.dnsPolicy is %s, not %s: the sidecar may not find the control plane's address",
				p, corev1.DNSClusterFirst),
		)
	}
	return list
}
