// Package console tests the web console in a real browser, Debian's Chromium, against a control
// plane with the Bookinfo mesh whose sidecars are simulated.
//
// The tests are skipped where Chromium is missing, unless CI=true. Accessibility is checked by
// axe-core, which `make ui` installs; without it that part is skipped. `make ui-test` needs both.
//
// Start with newFixture in fixture_test.go; browser_test.go controls the browser.
package console
