package kubelet_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Tests of a container's environment and volumes.
func TestEnvironmentAndVolumes(t *testing.T) {
	l := newLab(t)
	l.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue, size: "7"}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {password: hush}
---
apiVersion: v1
kind: Pod
metadata: {name: content, labels: {app: content}, annotations: {note: hello}}
spec:
  hostname: host
  securityContext: {runAsUser: 1234, runAsGroup: 1235, fsGroup: 1236, sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: "81"}]}
  containers:
  - name: main
    image: pause
    envFrom: [{configMapRef: {name: settings}, prefix: C_}]
    env:
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: secret, key: password}}}
    - {name: NONE, valueFrom: {secretKeyRef: {name: absent, key: password, optional: true}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: APP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1Mi}}}
    - {name: URL, value: "http://$(IP):80/$$(IP)/$(UNKNOWN)"}
    resources: {requests: {memory: 100Mi}, limits: {cpu: 1500m}}
    volumeMounts:
    - {name: all, mountPath: /all}
    - {name: settings, mountPath: /etc/one, subPath: colour}
  volumes:
  - name: settings
    configMap: {name: settings}
  - name: all
    projected:
      sources:
      - configMap: {name: settings, items: [{key: colour, path: deep/colour}]}
      - secret: {name: secret}
      - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
      - serviceAccountToken: {path: token, audience: someone, expirationSeconds: 3600}
`)
	pod := l.pod("content", "ready", ready)
	for script, want := range map[string]string{
		`echo $C_colour $C_size $PASSWORD $APP $CPU $MEMORY`: "blue 7 hush content 2 100",
		`echo ${NONE-unset}`:            "unset",
		`echo $URL`:                     "http://" + pod.Status.PodIP + ":80/$(IP)/$(UNKNOWN)",
		`cat /all/deep/colour /etc/one`: "blueblue",
		`cat /all/password`:             "hush",
		`grep app= /all/labels`:         `app="content"`,
		`id -u; id -g`:                  "1234\n1235",
		`hostname`:                      "host",
		`cat /proc/sys/net/ipv4/ip_unprivileged_port_start`: "81",
		`test -w /all/password || echo no`:                  "no",
		`stat -Lc %g /all/password`:                         "1236",
		`ls /sys/class/net | tr '\n' ' '`:                   "eth0 lo",
	} {
		if got := l.exec("content", script); got != want {
			t.Errorf("%s prints %q, want %q", script, got, want)
		}
	}
	claims := claimsOf(t, l.exec("content", "cat /all/token"))
	if claims.Audience[0] != "someone" || claims.Kubernetes.Pod.UID != string(pod.UID) {
		t.Errorf("the token is for %v, of pod %s", claims.Audience, claims.Kubernetes.Pod.UID)
	}
	// A changed ConfigMap is updated in the volume; files mounted by subPath are not.
	settings := l.Client(t).CoreV1().ConfigMaps(l.namespace)
	if _, err := settings.Patch(t.Context(), "settings", "application/merge-patch+json", []byte(`{"data":{"colour":"red"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.await("the new colour", func() error {
		if got := l.exec("content", "cat /all/deep/colour /etc/one"); got != "redblue" {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

type claims struct {
	Audience   []string `json:"aud"`
	Kubernetes struct {
		Pod struct {
			UID string `json:"uid"`
		} `json:"pod"`
	} `json:"kubernetes.io"`
}

func claimsOf(t *testing.T, token string) (c claims) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no token", token)
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}
