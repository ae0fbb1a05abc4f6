package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"istio.io/api/annotation"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/base/truncate"
	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Bounds of a pod. Kubernetes rejects annotations above 256 KiB, but only after the webhooks.
const (
	maxPodValues      = 50_000
	maxAnnotations    = 256 << 10
	maxContainers     = 500
	maxOverrideValues = 5_000
	maxLoggedPodNames = 300
)

// Injector reviews new pods and returns the patch that injects the proxy. Its configuration can be
// replaced concurrently.
type Injector struct {
	// Revision and Compliance are passed to inject.Settings.
	Revision, Compliance string
	// Mesh and ProxyConfigs return the current mesh configuration and ProxyConfig objects.
	Mesh         func() *meshconfig.MeshConfig
	ProxyConfigs func() []*config.Config
	// HasNativeSidecars reports whether the pod's node supports native sidecars; without a node
	// name, whether all nodes of the cluster do. If nil, none do. An empty cluster is the own one.
	HasNativeSidecars func(cluster mesh.ClusterID, node string) bool
	// ProxyUsers returns the user IDs for proxies in a cluster's namespace. If nil, the default
	// applies, and the platform assigns no user IDs to containers.
	ProxyUsers func(cluster mesh.ClusterID, namespace string) inject.Users
	Log        *slog.Logger

	mu     sync.RWMutex
	config *inject.Config
	values inject.Values
}

// Configure replaces the injection configuration.
func (i *Injector) Configure(c *inject.Config, v inject.Values) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.config, i.values = c, v
}

// Templates returns the source text of the current templates by name. It is empty before the first
// Configure, and must not be changed.
func (i *Injector) Templates() map[string]string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.config == nil {
		return map[string]string{}
	}
	return i.config.Texts
}

// currentSettings returns new settings for one injection, with the current mesh settings and, if
// i.ProxyConfigs is set, ProxyConfigs. Config is nil before the first Configure.
func (i *Injector) currentSettings() *inject.Settings {
	i.mu.RLock()
	defer i.mu.RUnlock()
	s := &inject.Settings{
		Config:     i.config,
		Values:     i.values,
		Mesh:       i.Mesh(),
		Revision:   i.Revision,
		Compliance: i.Compliance,
	}
	if i.ProxyConfigs != nil {
		s.ProxyConfigs = i.ProxyConfigs()
	}
	return s
}

// injectionHandler returns the handler of pod reviews, which counts their results. Pods that cannot
// be injected are denied and logged.
func (s *Server) injectionHandler(i *Injector) http.Handler {
	m := s.options.Metrics
	return s.reviewHandler(
		maxPodValues,
		func(_ context.Context, path string, r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
			start := time.Now()
			defer func() { m.InjectionTime.Observe(time.Since(start).Seconds()) }()
			m.Injections.Inc()
			response, injected, err := i.reviewPod(path, r)
			switch {
			case err != nil:
				m.Failed.Inc()
				i.Log.Warn(
					"sidecar injection failed; the pod is denied",
					"namespace", r.Namespace,
					"pod", r.Name,
					"err", err,
				)
				return denyResponse(
					http.StatusUnprocessableEntity,
					"the sidecar cannot be injected: "+err.Error(),
					nil,
				), nil
			case injected:
				m.Injected.Inc()
			default:
				m.Skipped.Inc()
			}
			return response, nil
		},
		func(int) { m.Injections.Inc(); m.Failed.Inc() },
	)
}

// reviewPod returns the response for a new pod: unchanged if injection is off for it, and otherwise
// with a JSON patch. injected is true with a patch only. It returns an error if the pod exceeds the
// limits, cannot be injected, or no configuration was loaded yet.
func (i *Injector) reviewPod(
	path string,
	r *admissionv1.AdmissionRequest,
) (response *admissionv1.AdmissionResponse, injected bool, err error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(r.Object.Raw, pod); err != nil {
		return nil, false, fmt.Errorf("decode the pod: %w", err)
	}
	if err := checkPodLimits(pod); err != nil {
		return nil, false, err
	}
	pod.ManagedFields = nil // may be large and is not needed
	namespace := r.Namespace
	if namespace == "" {
		namespace = pod.Namespace
	}
	s := i.currentSettings()
	if s.Config == nil {
		return nil, false, errors.New(
			"the injection configuration (ConfigMap istio-sidecar-injector) is not loaded yet",
		)
	}
	d := s.Config.Decide(pod, namespace)
	i.Log.Debug(
		"injection decision",
		"namespace", namespace,
		"pod", podNameForLog(pod),
		"inject", d.Inject,
		"reason", d.Reason,
	)
	response = &admissionv1.AdmissionResponse{Allowed: true}
	if d.Warning != "" {
		response.Warnings = append(response.Warnings, d.Warning)
	}
	if !d.Inject {
		return response, false, nil
	}
	request := inject.Request{Pod: pod, Namespace: namespace, Env: inject.ParsePathEnv(path)}
	cluster := mesh.ClusterID(request.Env["ISTIO_META_CLUSTER_ID"])
	if i.HasNativeSidecars != nil {
		request.NativeSidecars = i.HasNativeSidecars(cluster, pod.Spec.NodeName)
	}
	if i.ProxyUsers != nil {
		request.Users, request.AssignsUsers = i.ProxyUsers(cluster, namespace), true
	}
	result, err := s.Inject(request)
	if err != nil {
		return nil, false, err
	}
	// The patch applies to the pod as sent, which may have no namespace.
	result.Pod.Namespace = pod.Namespace
	if response.Patch, err = inject.CreatePatch(pod, result.Pod); err != nil {
		return nil, false, err
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.PatchType = &kind
	response.Warnings = append(response.Warnings, result.Warnings...)
	return response, true, nil
}

// checkPodLimits returns an error if the pod's annotations have more than maxAnnotations bytes, its
// overrides more than maxOverrideValues values, or the pod more than maxContainers containers, init
// containers included.
func checkPodLimits(pod *corev1.Pod) error {
	size := 0
	for k, v := range pod.Annotations {
		size += len(k) + len(v)
	}
	if size > maxAnnotations {
		return fmt.Errorf("the pod's annotations have more than %d bytes", maxAnnotations)
	}
	if overrides := pod.Annotations[annotation.ProxyOverrides.Name]; exceedsValueLimit(
		[]byte(overrides),
		maxOverrideValues,
	) {
		return fmt.Errorf("annotation %s has more than %d values", annotation.ProxyOverrides.Name, maxOverrideValues)
	}
	if len(pod.Spec.Containers)+len(pod.Spec.InitContainers) > maxContainers {
		return fmt.Errorf("the pod has more than %d containers", maxContainers)
	}
	return nil
}

// podNameForLog returns the pod's name, or its generated-name prefix and an ellipsis, truncated to
// maxLoggedPodNames bytes between characters.
func podNameForLog(pod *corev1.Pod) string {
	name := pod.Name
	if name == "" {
		name = pod.GenerateName + "…"
	}
	return truncate.Text(name, maxLoggedPodNames)
}

// denyResponse returns the response that denies an object as invalid, with an HTTP status code, the
// message and the details, which may be nil.
func denyResponse(code int32, message string, details *metav1.StatusDetails) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  metav1.StatusReasonInvalid,
		Message: message,
		Details: details,
	}}
}
