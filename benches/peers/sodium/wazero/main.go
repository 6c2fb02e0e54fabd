// Runs a WASI command under wazero's compiler.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		var exit *sys.ExitError
		if errors.As(err, &exit) {
			os.Exit(int(exit.ExitCode()))
		}
		fmt.Fprintln(os.Stderr, "wazero:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string, arguments []string) error {
	wasm, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	arguments = append([]string{"guest"}, arguments...)
	config := wazero.NewModuleConfig().WithArgs(arguments...).WithStdout(os.Stdout).WithStderr(os.Stderr).
		WithSysNanotime().WithSysWalltime()
	_, err = runtime.InstantiateWithConfig(ctx, wasm, config)
	return err
}
