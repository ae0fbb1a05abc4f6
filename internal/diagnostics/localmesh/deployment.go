package localmesh

import (
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

const (
	// maxReplicas bounds the workloads of one Deployment: each has an Envoy.
	maxReplicas = 20
	// maxName bounds the name of a workload with its namespace, which is the host name of its node.
	maxName = 63
	// templatesAnnotation selects the template of injection. "gateway" is a proxy without a
	// program.
	templatesAnnotation = "inject.istio.io/templates"
	// injectLabel with the value "false", or without the label the annotation of this name, runs a
	// workload without a sidecar.
	injectLabel = "sidecar.istio.io/inject"
)

// WorkloadSpec describes a workload.
type WorkloadSpec struct {
	Name, Namespace, ServiceAccount string
	Labels                          map[string]string
	// Programs are the programs beside the sidecar. A gateway has none.
	Programs []Program
	Gateway  bool
	// NoSidecar runs the programs without a proxy: they reach other workloads in plain text and by
	// address only, because no agent answers their DNS requests.
	NoSidecar bool

	deployment string           // name of its Deployment
	file       string           // that contains it
	portNames  map[string]int32 // of containers
}

// Program is a program of a workload.
type Program struct {
	// Name is the name of the container, and of the log.
	Name string
	// Args are the path of the program and its arguments.
	Args []string
	Env  []string
	// Dir is the working directory.
	Dir string
	// Ports are the TCP ports at which it accepts connections when it is ready.
	Ports []int32
}

// FullName returns NAME.NAMESPACE, as the proxy is named in the control plane.
func (w WorkloadSpec) FullName() string { return w.Name + "." + w.Namespace }

// deploymentWorkloads returns the workloads of a Deployment, one for each of at most maxReplicas
// replicas, with numbered names if there are several. With 0 replicas it is empty, not nil. If the
// Deployment has mistakes, workloads is nil and problems names the fields. path is its file, to
// whose directory paths of programs are relative.
func deploymentWorkloads(path string, d document) (workloads []WorkloadSpec, problems []string) {
	var object appsv1.Deployment
	if err := decodeStrictly(d.text, &object); err != nil {
		return nil, []string{err.Error()}
	}
	r := &deploymentReader{dir: filepath.Dir(path)}
	replicas := int32(1)
	if object.Spec.Replicas != nil {
		replicas = *object.Spec.Replicas
	}
	if replicas < 0 || replicas > maxReplicas {
		r.addProblem("spec.replicas: %d is not between 0 and %d", replicas, maxReplicas)
	}
	template := object.Spec.Template
	base := WorkloadSpec{
		Name: object.Name, Namespace: d.namespace(), ServiceAccount: template.Spec.ServiceAccountName,
		Labels: template.Labels, Gateway: template.Annotations[templatesAnnotation] == "gateway",
		NoSidecar:  api.InjectionSetting(&template.ObjectMeta) == "false",
		deployment: object.Name, file: path, portNames: map[string]int32{},
	}
	if base.ServiceAccount == "" {
		base.ServiceAccount = "default"
	}
	if base.Gateway && base.NoSidecar {
		r.addProblem("spec.template: a gateway is a proxy: remove %s or the annotation %s", injectLabel,
			templatesAnnotation)
	}
	if wrong := validation.IsDNS1123Subdomain(object.Name); len(wrong) > 0 {
		r.addProblem("metadata.name: %s", strings.Join(wrong, "; "))
	} else if len(base.FullName())+3 > maxName {
		r.addProblem("metadata.name: %s has more than %d characters", base.FullName(), maxName-3)
	}
	if len(template.Spec.InitContainers) > 0 {
		r.addProblem("spec.template.spec.initContainers: is not supported on one machine")
	}
	if len(template.Spec.Containers) == 0 && !base.Gateway {
		r.addProblem("spec.template.spec.containers: is required")
	}
	workloads = []WorkloadSpec{}
	for i := range max(replicas, 1) {
		w := base
		if replicas > 1 {
			w.Name = fmt.Sprintf("%s-%d", base.Name, i+1)
		}
		for at, c := range template.Spec.Containers {
			if !w.Gateway {
				r.addContainer(&w, fmt.Sprintf("spec.template.spec.containers[%d]", at), c)
			}
		}
		if len(r.problems) > 0 {
			return nil, r.problems
		}
		workloads = append(workloads, w)
	}
	return workloads[:replicas], nil
}

// deploymentReader collects the problems of a Deployment.
type deploymentReader struct {
	// dir is the directory of its file.
	dir      string
	problems []string
}

// addProblem appends a formatted problem.
func (r *deploymentReader) addProblem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// addContainer adds the program of a container, with its environment and TCP ports, and the numbers
// of its named ports to w. Fields that one machine does not support become problems; field is the
// path of the container. A program that is not found is a problem too.
func (r *deploymentReader) addContainer(w *WorkloadSpec, field string, c corev1.Container) {
	if len(c.VolumeMounts) > 0 {
		r.addProblem("%s.volumeMounts: is not supported on one machine: programs use its files", field)
	}
	if len(c.EnvFrom) > 0 {
		r.addProblem("%s.envFrom: is not supported on one machine: use env", field)
	}
	p := Program{Name: c.Name, Args: append(append([]string{}, c.Command...), c.Args...), Dir: r.dir}
	if c.WorkingDir != "" {
		p.Dir = c.WorkingDir
		if !filepath.IsAbs(p.Dir) {
			p.Dir = filepath.Join(r.dir, p.Dir)
		}
	}
	if p.Dir, _ = filepath.Abs(p.Dir); c.Name == "" || strings.ContainsRune(c.Name, '/') {
		r.addProblem("%s.name: is required, without a slash", field)
	}
	if len(c.Command) == 0 {
		r.addProblem("%s.command: is required: the programs of images are not run", field)
	} else if path, err := lookProgram(c.Command[0], p.Dir); err != nil {
		r.addProblem("%s.command: %v", field, err)
	} else {
		p.Args[0] = path
	}
	for i, e := range c.Env {
		if e.ValueFrom == nil {
			p.Env = append(p.Env, e.Name+"="+e.Value)
			continue
		}
		value, ok := fieldValue(w, e.ValueFrom)
		if !ok {
			r.addProblem("%s.env[%d].valueFrom: is not supported on one machine, except fieldRef of metadata.name, "+
				"metadata.namespace and spec.serviceAccountName", field, i)
		}
		p.Env = append(p.Env, e.Name+"="+value)
	}
	for _, port := range c.Ports {
		if port.Protocol == "" || port.Protocol == corev1.ProtocolTCP {
			p.Ports = append(p.Ports, port.ContainerPort)
		}
		if port.Name != "" {
			w.portNames[port.Name] = port.ContainerPort
		}
	}
	w.Programs = append(w.Programs, p)
}

// fieldValue returns the value of a reference to a field of the workload. The second result is
// false for a reference that is not supported.
func fieldValue(w *WorkloadSpec, from *corev1.EnvVarSource) (string, bool) {
	if from.FieldRef == nil {
		return "", false
	}
	switch from.FieldRef.FieldPath {
	case "metadata.name":
		return w.Name, true
	case "metadata.namespace":
		return w.Namespace, true
	case "spec.serviceAccountName":
		return w.ServiceAccount, true
	default:
		return "", false
	}
}

// lookProgram returns the path of an executable program: relative to dir if the name has a slash,
// and otherwise in PATH. The result may be relative to the working directory.
func lookProgram(name, dir string) (string, error) {
	if strings.ContainsRune(name, '/') && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return exec.LookPath(name)
}

// groupFile returns the path of the WorkloadGroup of a workload for the control plane.
func (w WorkloadSpec) groupFile() string { return filepath.Join("groups", w.FullName()+".json") }

// group returns the WorkloadGroup of a workload. It exists as long as the workload: the control
// plane signs certificates for the service accounts of WorkloadGroups, also before the workload is
// ready.
func (w WorkloadSpec) group() map[string]any {
	return map[string]any{
		"apiVersion": "networking.istio.io/v1",
		"kind":       "WorkloadGroup",
		"metadata":   map[string]any{"name": w.Name, "namespace": w.Namespace},
		"spec": map[string]any{
			"metadata": map[string]any{"labels": w.Labels},
			"template": map[string]any{"serviceAccount": w.ServiceAccount},
		},
	}
}

// entryFile returns the path of the WorkloadEntry of a workload for the control plane.
func (w WorkloadSpec) entryFile() string { return filepath.Join("workloads", w.FullName()+".json") }

// entry returns the WorkloadEntry of a workload with an address. Without a sidecar it has no
// service account, so that clients call it in plain text.
func (w WorkloadSpec) entry(addr netip.Addr) map[string]any {
	spec := map[string]any{"address": addr.String(), "labels": w.Labels}
	if !w.NoSidecar {
		spec["serviceAccount"] = w.ServiceAccount
	}
	return map[string]any{
		"apiVersion": "networking.istio.io/v1",
		"kind":       "WorkloadEntry",
		"metadata":   map[string]any{"name": w.Name, "namespace": w.Namespace, "labels": w.Labels},
		"spec":       spec,
	}
}
