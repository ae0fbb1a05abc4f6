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

	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Bounds of a pod. Kubernetes takes no annotations above 256 KiB, but says so only after the webhooks.
const (
	maxPodValues      = 50_000
	maxAnnotations    = 256 << 10
	maxContainers     = 500
	maxOverrideValues = 5_000
	maxLoggedPodNames = 300
)

// Injector answers with what is to be changed of a pod. Its configuration may change while it answers.
type Injector struct {
	// Revision and Compliance are inject.Settings'.
	Revision, Compliance string
	// Mesh and ProxyConfigs give the mesh configuration and the objects of kind ProxyConfig as of now.
	Mesh         func() *meshconfig.MeshConfig
	ProxyConfigs func() []*config.Config
	// Native says whether a pod's node runs sidecars as init containers; without a node's name, whether all do. nil: no.
	Native func(node string) bool
	// Users gives whom proxies of a namespace run as; nil: the usual one.
	Users func(namespace string) inject.Users
	Log   *slog.Logger

	mu     sync.RWMutex
	config *inject.Config
	values inject.Values
}

// Configure sets what is injected from now on.
func (i *Injector) Configure(c *inject.Config, v inject.Values) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.config, i.values = c, v
}

// Templates gives the templates in use by name, as they were written.
func (i *Injector) Templates() map[string]string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.config == nil {
		return map[string]string{}
	}
	return i.config.Texts
}

func (i *Injector) settings() *inject.Settings {
	i.mu.RLock()
	defer i.mu.RUnlock()
	s := &inject.Settings{Config: i.config, Values: i.values, Mesh: i.Mesh(), Revision: i.Revision, Compliance: i.Compliance}
	if i.ProxyConfigs != nil {
		s.ProxyConfigs = i.ProxyConfigs()
	}
	return s
}

// injection answers reviews of new pods by an Injector.
func (s *Server) injection(i *Injector) http.Handler {
	m := s.options.Metrics
	return s.review(maxPodValues, func(_ context.Context, path string, r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		start := time.Now()
		defer func() { m.InjectionTime.Observe(time.Since(start).Seconds()) }()
		m.Injections.Inc()
		response, injected, err := i.answer(path, r)
		switch {
		case err != nil:
			m.Failed.Inc()
			i.Log.Warn("a pod cannot be injected", "namespace", r.Namespace, "pod", r.Name, "err", err)
			return refusal(http.StatusUnprocessableEntity, "the sidecar cannot be injected: "+err.Error(), nil), nil
		case injected:
			m.Injected.Inc()
		default:
			m.Skipped.Inc()
		}
		return response, nil
	}, func(int) { m.Injections.Inc(); m.Failed.Inc() })
}

func (i *Injector) answer(path string, r *admissionv1.AdmissionRequest) (response *admissionv1.AdmissionResponse, injected bool, err error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(r.Object.Raw, pod); err != nil {
		return nil, false, fmt.Errorf("it is no pod: %w", err)
	}
	if err := bounded(pod); err != nil {
		return nil, false, err
	}
	pod.ManagedFields = nil // it may be large, and is not looked at
	namespace := r.Namespace
	if namespace == "" {
		namespace = pod.Namespace
	}
	s := i.settings()
	if s.Config == nil {
		return nil, false, errors.New("the control plane has not read its injection configuration (the ConfigMap istio-sidecar-injector) yet")
	}
	d := s.Config.Decide(pod, namespace)
	i.Log.Debug("asked about a pod", "namespace", namespace, "pod", nameOf(pod), "inject", d.Inject, "reason", d.Reason)
	response = &admissionv1.AdmissionResponse{Allowed: true}
	if d.Warning != "" {
		response.Warnings = append(response.Warnings, d.Warning)
	}
	if !d.Inject {
		return response, false, nil
	}
	request := inject.Request{Pod: pod, Namespace: namespace, Env: inject.PathEnv(path)}
	if i.Native != nil {
		request.Native = i.Native(pod.Spec.NodeName)
	}
	if i.Users != nil {
		request.Users = i.Users(namespace)
	}
	result, err := s.Inject(request)
	if err != nil {
		return nil, false, err
	}
	// The namespace was not in the pod that was sent, so it must not be in the pod that the patch is made against.
	result.Pod.Namespace = pod.Namespace
	if response.Patch, err = inject.Patch(pod, result.Pod); err != nil {
		return nil, false, err
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.PatchType = &kind
	response.Warnings = append(response.Warnings, result.Warnings...)
	return response, true, nil
}

func bounded(pod *corev1.Pod) error {
	size := 0
	for k, v := range pod.Annotations {
		size += len(k) + len(v)
	}
	if size > maxAnnotations {
		return fmt.Errorf("its annotations have more than %d bytes", maxAnnotations)
	}
	if own := pod.Annotations[annotation.ProxyOverrides.Name]; tooMany([]byte(own), maxOverrideValues) {
		return fmt.Errorf("annotation %s has more than %d values", annotation.ProxyOverrides.Name, maxOverrideValues)
	}
	if len(pod.Spec.Containers)+len(pod.Spec.InitContainers) > maxContainers {
		return fmt.Errorf("it has more than %d containers", maxContainers)
	}
	return nil
}

func nameOf(pod *corev1.Pod) string {
	name := pod.Name
	if name == "" {
		name = pod.GenerateName + "…"
	}
	return name[:min(len(name), maxLoggedPodNames)]
}

// refusal is the answer that keeps an object out, with the reason.
func refusal(code int32, message string, details *metav1.StatusDetails) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonInvalid, Message: message, Details: details,
	}}
}
