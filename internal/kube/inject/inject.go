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

// Settings is everything that injection goes by, of one moment. It is read only.
type Settings struct {
	Config *Config
	Values Values
	Mesh   *meshconfig.MeshConfig
	// ProxyConfigs are the objects of that kind.
	ProxyConfigs []*config.Config
	// Revision is the control plane's; empty: the default one.
	Revision string
	// Compliance is COMPLIANCE_POLICY.
	Compliance string
}

// Request is one pod to inject.
type Request struct {
	// Pod is as it was sent; it stays as it is. Namespace is where it is to be, if it does not say so itself.
	Pod       *corev1.Pod
	Namespace string
	// Owner is the workload that it belongs to; nil: what the pod says of it.
	Owner *Owner
	// Env is what the webhook's path adds to the proxy's environment, see [PathEnv].
	Env map[string]string
	// Native says that the nodes run sidecars as init containers.
	Native bool
	// Users are whom the proxy runs as; zero: 1337.
	Users Users
}

// Result is an injected pod.
type Result struct {
	Pod *corev1.Pod
	// Warnings is what of the pod will not do what it looks like.
	Warnings []string
}

// Inject gives the pod with what its templates put there. Whether it is to be injected was asked before, see [Config.Decide].
func (s *Settings) Inject(r Request) (Result, error) {
	j, err := s.job(r)
	if err != nil {
		return Result{}, err
	}
	merged, injected, err := j.render()
	if err != nil {
		return Result{}, err
	}
	if merged, err = reapply(merged, j.pod, injected, j.before, j.own); err != nil {
		return Result{}, err
	}
	followUser(merged, userContainer(j.pod, j.before, j.own, proxyContainer), j.proxyConfig.InterceptionMode == meshconfig.ProxyConfig_TPROXY ||
		merged.Annotations[annotation.SidecarInterceptionMode.Name] == "TPROXY")
	if err := j.finish(merged, injected); err != nil {
		return Result{}, err
	}
	return Result{Pod: merged, Warnings: j.warnings()}, nil
}

// job is one injection under way.
type job struct {
	*Settings
	Request
	pod         *corev1.Pod // with its namespace
	proxyConfig *meshconfig.ProxyConfig
	ignored     error // of its annotation
	env         map[string]string
	statusPort  int32
	// before is what an earlier injection did, own what the user had set of injected containers then.
	before *status
	own    *containers
}

func (s *Settings) job(r Request) (*job, error) {
	j := &job{Settings: s, Request: r, pod: r.Pod.DeepCopy(), env: maps.Clone(r.Env)}
	j.pod.Namespace = cmp.Or(j.pod.Namespace, r.Namespace)
	if r.Namespace == "" {
		j.Namespace = j.pod.Namespace
	}
	if err := checkAnnotations(j.pod.Annotations); err != nil {
		return nil, err
	}
	var err error
	if j.proxyConfig, j.ignored, err = ProxyConfigOf(s.Mesh, s.ProxyConfigs, j.pod, j.Namespace); err != nil {
		return nil, err
	}
	j.foldAnnotations()
	j.before = readStatus(j.pod)
	if j.own, err = readOverrides(j.pod); err != nil {
		return nil, err
	}
	j.setPlace()
	return j, nil
}

// foldAnnotations puts into the ProxyConfig what annotations of their own say of it, so that every agent learns it. Status port 0,
// which is none, cannot be said there.
func (j *job) foldAnnotations() {
	j.statusPort = j.proxyConfig.StatusPort
	if said, err := strconv.ParseInt(strings.TrimSpace(j.pod.Annotations[annotation.SidecarStatusPort.Name]), 10, 32); err == nil {
		j.statusPort = int32(said)
	}
	if j.statusPort != 0 {
		j.proxyConfig.StatusPort = j.statusPort
	}
	if address := j.pod.Annotations[annotation.SidecarDiscoveryAddress.Name]; address != "" {
		j.proxyConfig.DiscoveryAddress = address
	}
}

// setPlace finds the cluster and network of the pod: of the network its label says it first of all, then the webhook's path, then
// the values.
func (j *job) setPlace() {
	if j.env == nil {
		j.env = map[string]string{}
	}
	for name, value := range map[string]string{
		"ISTIO_META_CLUSTER_ID": j.Values.known.Global.MultiCluster.ClusterName,
		"ISTIO_META_NETWORK":    j.Values.known.Global.Network,
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

// render gives the pod with its templates laid over it, and what the templates alone are.
func (j *job) render() (merged, injected *corev1.Pod, err error) {
	data := j.data()
	merged, injected = j.pod, &corev1.Pod{}
	for _, name := range j.templates() {
		t, err := j.Config.template(name)
		if err != nil {
			return nil, nil, err
		}
		text, err := t.Execute(data)
		if err != nil {
			return nil, nil, err
		}
		part, err := parsePart(text)
		if err != nil {
			return nil, nil, fmt.Errorf("template %q: %w", name, err)
		}
		if injected, err = overlay(injected, part); err != nil {
			return nil, nil, fmt.Errorf("template %q: %w", name, err)
		}
		if j.native() && find(injected.Spec.InitContainers, proxyContainer) != nil {
			merged = moveToInit(merged, proxyContainer)
		}
		if merged, err = overlay(merged, part); err != nil {
			return nil, nil, fmt.Errorf("template %q: %w", name, err)
		}
	}
	return merged, injected, nil
}

// moveToInit makes a user's own istio-proxy container an init container, which is what the template's is.
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

func (j *job) native() bool {
	if on, err := strconv.ParseBool(j.pod.Annotations[annotation.SidecarNativeSidecar.Name]); err == nil {
		return on
	}
	return j.Native
}

// templates are those that the pod asks for, or else the default ones. Aliases stand for others, once.
func (j *job) templates() []string {
	names := j.Config.DefaultTemplates
	if said, ok := j.pod.Annotations[annotation.InjectTemplates.Name]; ok {
		names = strings.Split(said, ",")
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

func (j *job) data() render.Data {
	owner := j.Owner
	if owner == nil {
		o := ownerOf(j.pod)
		owner = &o
	}
	pod := stripped(j.pod, j.before, j.own, j.port())
	mode := "passthrough"
	if j.Mesh.GetInboundTrafficPolicy().GetMode() == meshconfig.MeshConfig_InboundTrafficPolicy_LOCALHOST {
		mode = "localhost"
	}
	users := j.Users.orDefault()
	return render.Data{
		TypeMeta: owner.Type, DeploymentMeta: owner.Name, ObjectMeta: pod.ObjectMeta, Spec: pod.Spec,
		ProxyConfig: j.proxyConfig, MeshConfig: j.Mesh, Values: j.Values.Tree, Revision: j.Revision, NativeSidecars: j.Native,
		ProxyImage:     j.Values.proxyImage(j.proxyConfig.GetImage().GetImageType(), pod.Annotations),
		ProxyInitImage: j.Values.initImage(pod.Annotations),
		ProxyUID:       users.UID, ProxyGID: users.GID, InboundTrafficPolicyMode: mode, CompliancePolicy: j.Compliance,
	}
}

func (j *job) port() string { return strconv.Itoa(int(j.statusPort)) }

// finish makes those changes of the injected pod that depend on other containers, and so are beyond templates.
func (j *job) finish(pod, injected *corev1.Pod) error {
	if proxy := findAny(pod, proxyContainer); proxy != nil {
		setEnv(proxy, j.env)
	}
	if j.statusPort != 0 { // without one the agent serves nothing
		if err := mergeMetrics(pod, j.Mesh, j.port()); err != nil {
			return err
		}
	}
	announceSecurePort(pod)
	if j.rewrites(pod) {
		if err := rewriteProbes(pod, j.statusPort, j.before != nil); err != nil {
			return err
		}
	}
	if n, ok := j.env["ISTIO_META_NETWORK"]; ok {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels[label.TopologyNetwork.Name] = n
	}
	text, err := statusOf(&injected.Spec, j.Revision).text()
	if err != nil {
		return err
	}
	annotate(pod, annotation.SidecarStatus.Name, text)
	for k, v := range j.Config.Annotations {
		annotate(pod, k, v)
	}
	order(pod, j.proxyConfig.GetHoldApplicationUntilProxyStarts().GetValue() || j.Values.known.Global.Proxy.HoldApplicationUntilProxyStarts)
	if len(pod.Spec.Containers) == 0 {
		return errors.New("the pod has no containers")
	}
	return nil
}

// rewrites says whether probes are to be rewritten: by the annotation, which a template may have set, or else by the values. Nobody
// answers them if the agent has no port.
func (j *job) rewrites(pod *corev1.Pod) bool {
	on, err := strconv.ParseBool(pod.Annotations[annotation.SidecarRewriteAppHTTPProbers.Name])
	if err != nil {
		on = j.Values.known.SidecarInjectorWebhook.RewriteAppHTTPProbe
	}
	return on && j.statusPort != 0
}

// setEnv sets variables of a container, in place of what the template had of that name.
func setEnv(c *corev1.Container, env map[string]string) {
	c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { _, set := env[e.Name]; return set })
	for _, name := range slices.Sorted(maps.Keys(env)) {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: env[name]})
	}
}

func (j *job) warnings() []string {
	list := annotationWarnings(j.pod.Annotations)
	if j.ignored != nil {
		list = append(list, fmt.Sprintf("annotation %s: %v: it does not count", annotation.ProxyConfig.Name, j.ignored))
	}
	list = append(list, j.uncaptured()...)
	if p := j.pod.Spec.DNSPolicy; p != "" && p != corev1.DNSClusterFirst {
		list = append(list, fmt.Sprintf("spec.dnsPolicy is %s, not %s: the sidecar may not find the control plane's address", p, corev1.DNSClusterFirst))
	}
	return list
}
