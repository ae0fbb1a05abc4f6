package compat

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// drainTime is longer than Istio's agent drains Envoy without regard to active connections (5 s).
const drainTime = 7 * time.Second

// drain deletes a pod with Istio's agent while a call to it is in flight. The agent keeps Envoy
// running until the call is answered, and then the pod ends.
func (s *shop) drain(t *testing.T, name string) {
	result := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	go func() {
		out, err := s.cluster.Exec(ctx, "shop", "client", "app", "curl", "-sS", "-w", " %{http_code}",
			fmt.Sprintf("http://%s:%d/hold", name, heldCallsPort))
		if err == nil && out != "released 200" {
			err = errors.New("the answer is " + out)
		}
		result <- err
	}()
	local := func(path string) (string, error) {
		return s.cluster.Exec(ctx, "shop", name, "app", "curl", "-sS", "-m", "5", fmt.Sprintf("http://localhost:%d%s", heldCallsPort, path))
	}
	serving.Eventually(t, patience, "the call reaches the application", func() error {
		out, err := local("/held")
		if err == nil && out != "1" {
			err = fmt.Errorf("calls: %q", out)
		}
		return err
	})
	pods := s.cluster.Client(t).CoreV1().Pods("shop")
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	serving.Eventually(t, patience, "the pod is being stopped", func() error {
		out, err := local("/ending")
		if err == nil && out != "true" {
			err = errors.New("the application has no signal yet")
		}
		return err
	})
	select {
	case err := <-result:
		t.Fatalf("the call ended before it was answered: %v", err)
	case <-time.After(drainTime):
	}
	if _, err := local("/release"); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Errorf("the call that was in flight: %v", err)
	}
	serving.Eventually(t, patience, "the pod is deleted", func() error {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return errors.New("it still exists")
		default:
			return err
		}
	})
}
