package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/meshpilot/meshpilot/internal/base/obs"
)

// valueSets are ways in which people install the charts.
func valueSets() map[string][]string {
	return map[string][]string{
		"istiod":                     nil,
		"istiod, a revision":         {"revision=canary", "revisionTags={prod,default}"},
		"istiod, all Secrets":        {"gatewaySecrets.scope=cluster"},
		"istiod, Secrets of others":  {"gatewaySecrets.namespaces={shop,bank}"},
		"istiod, fixed replicas":     {"autoscaleEnabled=false", "replicaCount=2", "pdb.maxUnavailable=1"},
		"istiod, replicas in number": {"autoscaleMin=2", "memory.targetAverageUtilization=70"},
		"istiod, no plain text":      {"plaintextXDS.enabled=false"},
		"istiod, everything": {
			"global.hub=registry.test/mesh", "global.tag=v1", "global.imagePullSecrets={pull}", "global.priorityClassName=system-cluster-critical",
			"global.logAsJson=true", "global.platform=openshift", "global.meshID=mesh1", "global.network=net1", "global.multiCluster.clusterName=c1",
			"env.PILOT_DEBOUNCE_AFTER=1ms", "nodeSelector.disk=fast", "podAnnotations.a=b", "podLabels.c=d", "deploymentLabels.e=f",
			"serviceAnnotations.g=h", "serviceAccountAnnotations.i=j", "ipFamilyPolicy=PreferDualStack", "extraContainerArgs={--profile=false}",
			"tolerations[0].operator=Exists", "sidecarInjectorWebhook.enableNamespacesByDefault=true",
			"sidecarInjectorWebhook.templates.mine=spec: {}", "meshConfig.accessLogFile=/dev/stdout", "cni.enabled=true",
		},
		"istiod, elsewhere":   {"istiodRemote.enabled=true", "istiodRemote.injectionURL=https://istiod.test/inject", "istiodRemote.injectionCABundle=YQ=="},
		"gateway":             nil,
		"gateway, a set":      {"kind=DaemonSet", "service.type=NodePort", "autoscaling.enabled=false", "strategy.type=OnDelete"},
		"gateway, no Service": {"service.type=None", "podDisruptionBudget.minAvailable=1", "serviceAccount.create=false"},
		"gateway, networks":   {"networkGateway=net1", "revision=canary", "env.A=b", "service.externalTrafficPolicy=Local"},
		"gateway, everything": {
			"name=edge", "podAnnotations.a=b", "service.clusterIP=10.96.0.9", "service.selectorLabels.color=blue", "service.externalTrafficPolicy=Local",
			"service.healthCheckNodePort=30098", "service.externalIPs={192.0.2.1}", "env.N=1", "envVarFrom[0].name=NODE",
			"envVarFrom[0].valueFrom.fieldRef.fieldPath=spec.nodeName", "readinessProbe.tcpSocket.port=80", "lifecycle.preStop.sleep.seconds=5",
			"initContainers[0].name=first", "initContainers[0].image=busybox", "additionalContainers[0].name=beside", "additionalContainers[0].image=busybox",
			"dnsPolicy=None", "dnsConfig.nameservers={192.0.2.53}", "volumes[0].name=v", "volumeMounts[0].name=v", "volumeMounts[0].mountPath=/v",
		},
		"base":            nil,
		"base, elsewhere": {"defaultRevision=canary", "base.validationURL=https://istiod.test/validate", "base.validationCABundle=YQ=="},
		"cni":             nil,
		"cni, everything": {
			"hub=registry.test/mesh", "tag=v1", "pullPolicy=Always", "logging.level=default:debug", "cniConfFileName=10-net.conflist", "chained=false",
			"excludeNamespaces={a,b}", "env.A=b", "podLabels.c=d", "podAnnotations.e=f", "nodeSelector.disk=fast", "global.imagePullSecrets={pull}",
			"global.nativeNftables=true", "global.logAsJson=true", "cniBinDir=/home/kubernetes/bin", "repair.deletePods=false", "repair.labelPods=true",
		},
	}
}

// allSets returns valueSets, and a set for each profile and platform that changes defaults of a chart.
func allSets(t *testing.T, h helm) map[string][]string {
	t.Helper()
	all := valueSets()
	files, err := filepath.Glob(filepath.Join(h.root, chart("*"), "profiles", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no profiles: %v", err)
	}
	for _, file := range files {
		which := filepath.Base(filepath.Dir(filepath.Dir(file)))
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		set := "profile=" + name
		if platform, ok := strings.CutPrefix(name, "platform-"); ok {
			set = "platform=" + platform
		}
		all[which+", "+set] = []string{set}
	}
	return all
}

// TestManifests checks that the plain manifests contain the charts' objects, and the namespaces
// that Helm would create.
func TestManifests(t *testing.T) {
	h := newHelm(t, "")
	dir := t.TempDir()
	script := exec.CommandContext(t.Context(), "hack/manifests.sh", dir, "--set", "tag=v9")
	script.Dir = h.root
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("hack/manifests.sh: %v\n%s", err, out)
	}
	for file, want := range map[string]string{
		"base.yaml": "CustomResourceDefinition//virtualservices.networking.istio.io", "istiod.yaml": "Deployment/istio-system/istiod",
		"gateway.yaml": "Deployment/istio-ingress/istio-ingressgateway",
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		list := names(t, string(text))
		if !slices.Contains(list, want) {
			t.Errorf("%s lacks %s: %v", file, want, list)
		}
		if file != "base.yaml" && !strings.HasPrefix(list[0], "Namespace/") {
			t.Errorf("%s begins with %s, and not with its namespace", file, list[0])
		}
		if file == "istiod.yaml" && !strings.Contains(string(text), "meshpilot/pilot:v9") {
			t.Errorf("%s does not have the tag that was set", file)
		}
	}
}

func arguments(values []string) []string {
	var args []string
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

func TestLint(t *testing.T) {
	h := newHelm(t, "")
	for name, values := range allSets(t, h) {
		t.Run(name, func(t *testing.T) {
			which, _, _ := strings.Cut(name, ",")
			h.run(t, append([]string{"lint", "--strict", chart(which)}, arguments(values)...)...)
		})
	}
}

// TestRevisionsStandSideBySide checks that objects of different revisions have different names.
func TestRevisionsStandSideBySide(t *testing.T) {
	h := newHelm(t, "")
	stable := names(t, h.run(t, "template", "a", chart("istiod"), "-n", "istio-system"))
	canary := names(t, h.run(t, "template", "b", chart("istiod"), "-n", "istio-system", "--set", "revision=canary"))
	if len(stable) < 10 || len(stable) != len(canary) {
		t.Fatalf("objects: %d and %d", len(stable), len(canary))
	}
	for _, n := range stable {
		if slices.Contains(canary, n) {
			t.Errorf("both revisions have %s", n)
		}
	}
}

// TestGatewayPodLabel checks the label by which Gateway objects select pods.
func TestGatewayPodLabel(t *testing.T) {
	h := newHelm(t, "")
	for _, o := range objects(t, h.run(t, "template", "x", chart("gateway"), "--set", "name=istio-ingressgateway")) {
		if o.GetKind() != "Deployment" {
			continue
		}
		got, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"app": "istio-ingressgateway", "istio": "ingressgateway"}, got); diff != "" {
			t.Error(diff)
		}
		return
	}
	t.Error("no Deployment")
}

// TestInjectorsAreKnownToIstioctl checks the labels by which istioctl finds the injectors of
// revisions and tags (istioctl tag list, istioctl experimental injector list).
func TestInjectorsAreKnownToIstioctl(t *testing.T) {
	h := newHelm(t, "")
	found := map[string]string{}
	for _, o := range objects(t, h.run(t, "template", "x", chart("istiod"), "-n", "istio-system", "--set", "revision=canary,revisionTags={prod}")) {
		if o.GetKind() == "MutatingWebhookConfiguration" {
			l := o.GetLabels()
			found[o.GetName()] = l["app"] + " " + l["istio.io/rev"] + " " + l["istio.io/tag"]
		}
	}
	want := map[string]string{
		"istio-sidecar-injector-canary-istio-system": "sidecar-injector canary ",
		"istio-revision-tag-prod-istio-system":       "sidecar-injector canary prod",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestChartsAreOfThisRelease checks that charts, their images and the programs have the same
// version.
func TestChartsAreOfThisRelease(t *testing.T) {
	h := newHelm(t, "")
	for _, name := range []string{"base", "istiod", "gateway", "cni"} {
		text := h.run(t, "show", "chart", chart(name))
		for _, want := range []string{"version: " + obs.Version + "\n", "appVersion: " + obs.Version + "\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("the chart %s lacks %q:\n%s", name, want, text)
			}
		}
	}
}

// TestGatewayVariables checks that env, in which YAML could parse a name as a boolean, and
// envVarFrom become variables of the proxy.
func TestGatewayVariables(t *testing.T) {
	h := newHelm(t, "")
	for _, o := range objects(t, h.run(t, append([]string{"template", "x", chart("gateway")}, arguments(valueSets()["gateway, everything"])...)...)) {
		if o.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &d, true); err != nil {
			t.Fatal(err)
		}
		want := []corev1.EnvVar{
			{Name: "N", Value: "1"},
			{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		}
		if diff := cmp.Diff(want, d.Spec.Template.Spec.Containers[0].Env); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		return
	}
	t.Error("no Deployment")
}

func unstructuredOf(o map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: o}
}

func names(t *testing.T, manifest string) []string {
	t.Helper()
	var list []string
	for _, o := range objects(t, manifest) {
		list = append(list, o.GetKind()+"/"+o.GetNamespace()+"/"+o.GetName())
	}
	return list
}

func objects(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	var list []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		if err != nil {
			break
		}
		if len(o.Object) > 0 {
			list = append(list, o)
		}
	}
	return list
}

// TestExportPermission: with service export disabled, the chart grants the control plane no
// permission for it.
func TestExportPermission(t *testing.T) {
	h := newHelm(t, "")
	for value, want := range map[string]bool{"PILOT_HTTP10=true": false, "ENABLE_MCS_AUTO_EXPORT=false": false, "ENABLE_MCS_AUTO_EXPORT=true": true} {
		may := false
		for _, o := range objects(t, h.run(t, "template", "istiod", chart("istiod"), "-n", "istio-system", "--set-string", "env."+value)) {
			if o.GetKind() != "ClusterRole" {
				continue
			}
			rules, _, err := unstructured.NestedSlice(o.Object, "rules")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rules {
				rule, _ := r.(map[string]any)
				resources, _, _ := unstructured.NestedStringSlice(rule, "resources") // no resources if the field is missing
				verbs, _, _ := unstructured.NestedStringSlice(rule, "verbs")
				may = may || slices.Contains(resources, "serviceexports") && slices.Contains(verbs, "create")
			}
		}
		if may != want {
			t.Errorf("%s: it may export services: %t", value, may)
		}
	}
}

// TestPlaintextXDS: xDS in plain text can be closed to other pods.
func TestPlaintextXDS(t *testing.T) {
	h := newHelm(t, "")
	for _, open := range []bool{true, false} {
		out := h.run(t, "template", "istiod", chart("istiod"), "-n", "istio-system", "--set", fmt.Sprintf("plaintextXDS.enabled=%v", open))
		if strings.Contains(out, "port: 15010") != open || strings.Contains(out, "containerPort: 15010") != open ||
			strings.Contains(out, "--grpcAddr=localhost:15010") == open {
			t.Errorf("with enabled=%v:\n%s", open, out)
		}
	}
}

// TestDefaultValidator: Istio's tools look for the validation of objects that name no revision by the name istiod-default-validator.
// The control plane must be allowed to complete it.
func TestDefaultValidator(t *testing.T) {
	h := newHelm(t, "")
	const name = "ValidatingWebhookConfiguration//istiod-default-validator"
	base := func(values ...string) string {
		return h.run(t, append([]string{"template", "istio-base", chart("base"), "-n", "istio-system"}, arguments(values)...)...)
	}
	if text := base(); !slices.Contains(names(t, text), name) || !strings.Contains(text, "name: istiod\n") {
		t.Errorf("the chart base lacks %s of the Service istiod", name)
	}
	if text := base("defaultRevision=canary"); !strings.Contains(text, "name: istiod-canary\n") {
		t.Error("defaultRevision=canary: it is not of the Service istiod-canary")
	}
	if slices.Contains(names(t, base("defaultRevision=")), name) {
		t.Errorf("defaultRevision=: there is %s", name)
	}
	text := h.run(t, "template", "istiod", chart("istiod"), "-n", "istio-system", "--show-only", "templates/clusterrole.yaml")
	if !strings.Contains(text, "- istiod-default-validator\n") {
		t.Error("the control plane may not patch it")
	}
}
