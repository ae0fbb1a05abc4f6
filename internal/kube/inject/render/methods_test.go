package render

import (
	"strings"
	"testing"
	"text/template"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// dataWithMethods returns data whose values have methods that templates call.
func dataWithMethods() Data {
	d := dataWith("text")
	d.ObjectMeta.Namespace = "shop"
	d.ObjectMeta.CreationTimestamp = metav1.NewTime(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	d.ProxyConfig.Concurrency = wrapperspb.Int32(3)
	d.ProxyConfig.TerminationDrainDuration = durationpb.New(90 * time.Second)
	d.ProxyConfig.Tracing = &meshconfig.Tracing{Tracer: &meshconfig.Tracing_Zipkin_{
		Zipkin: &meshconfig.Tracing_Zipkin{Address: "zipkin:9411"},
	}}
	d.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}
	d.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)},
	}}
	d.Values["Value"] = map[string]any{"String": "s", "list": []any{"x"}}
	return d
}

// TestMethodsAreThoseOfTextTemplate compares method calls with text/template, which calls methods
// itself.
func TestMethodsAreThoseOfTextTemplate(t *testing.T) {
	for _, text := range []string{
		`{{ .ProxyConfig.Concurrency.GetValue }}`,
		`{{ if gt .ProxyConfig.Concurrency.GetValue 2 }}many{{ end }}`,
		`{{ .ProxyConfig.GetConcurrency.GetValue | printf "%03d" }}`,
		`{{ .ProxyConfig.GetConcurrency.Value }}`,
		`{{ .ProxyConfig.GetReadinessProbe.GetPeriodSeconds }}`,
		`{{ .MeshConfig.GetDefaultConfig.GetConcurrency.GetValue }}`,
		`{{ .ProxyConfig.GetInterceptionMode }} {{ .ProxyConfig.InterceptionMode.String }}`,
		`{{ .ProxyConfig.TerminationDrainDuration.AsDuration.Seconds }}`,
		`{{ .ProxyConfig.GetTracing.GetZipkin.GetAddress }}|{{ .ProxyConfig.GetTracing.GetLightstep.GetAddress }}`,
		`{{ with .ProxyConfig.GetTracing }}{{ .GetZipkin.Address }}{{ end }}`,
		`{{ $p := .ProxyConfig }}{{ $p.GetStatusPort }} {{ ($p.GetConcurrency).GetValue }} {{ $.ObjectMeta.GetName }}`,
		`{{ .ObjectMeta.GetNamespace }}/{{ .ObjectMeta.GetName }} {{ .ObjectMeta.GetLabels.l }} {{ index .ObjectMeta.GetAnnotations "a" }}`,
		`{{ .ObjectMeta.CreationTimestamp.Format "2006-01-02" }} {{ .ObjectMeta.CreationTimestamp.IsZero }}`,
		`{{ .DeploymentMeta.String }}`,
		`{{ range .Spec.Containers }}{{ .Resources.Limits.Cpu.MilliValue }} {{ .Resources.Limits.Cpu.String }};{{ end }}`,
		`{{ (index .Spec.Containers 0).LivenessProbe.HTTPGet.Port.String }} {{ (index .Spec.Containers 0).LivenessProbe.HTTPGet.Port.IntValue }}`,
		`{{ (semver "1.31.2").Minor }} {{ (semver "1.31.2-rc.1").Prerelease }}`,
		`{{ .Values.Value.String }} {{ range .Values.Value.list }}{{ . }}{{ end }} {{ .Values.Patch }}`,
		`{{ define "d" }}{{ .GetValue }}{{ end }}{{ template "d" .ProxyConfig.Concurrency }}`,
		// Errors in both.
		`{{ .ProxyConfig.GetNothing }}`,
		`{{ .ProxyConfig.ReadinessProbe.Value }}`,
		`{{ .ProxyConfig.GetConcurrency.GetValue 1 }}`,
		`{{ .ObjectMeta.CreationTimestamp.Format }}`,
		`{{ .ObjectMeta.CreationTimestamp.Format 1 }}`,
		`{{ "text".String }}`,
	} {
		data := dataWithMethods()
		var want strings.Builder
		reference, wantErr := template.New("x").Funcs(templateFuncs(nil)).Parse(text)
		if wantErr == nil {
			wantErr = reference.Execute(&want, &data)
		}
		var got []byte
		x, err := Parse("x", text, nil)
		if err == nil {
			got, err = x.Execute(data)
		}
		switch {
		case (err != nil) != (wantErr != nil):
			t.Errorf("%s: error %v, want %v", text, err, wantErr)
		case err == nil && string(got) != want.String():
			t.Errorf("%s: %q, want %q", text, got, want.String())
		}
	}
}

// TestUnlistedMethods: a method that is not listed is an error that names it.
func TestUnlistedMethods(t *testing.T) {
	for _, text := range []string{`{{ .ProxyConfig.ProtoReflect }}`, `{{ .ObjectMeta.SetName "x" }}`} {
		x, err := Parse("x", text, nil)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Fields(strings.SplitN(text, ".", 3)[2])[0]
		if _, err := x.Execute(dataWithMethods()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want one that names %s", text, err, name)
		}
	}
}
