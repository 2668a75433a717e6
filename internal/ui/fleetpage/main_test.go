package fleetpage_test

import (
	"os"
	"testing"

	"github.com/paddock-project/paddock/internal/testing/webuitest"
)

func TestMain(m *testing.M) { os.Exit(webuitest.Main{M: m}.Run()) }
