# SPDX-License-Identifier: Apache-2.0
# Each fuzz target is one file with LLVMFuzzerTestOneInput. With
# --enable-fuzz it is linked with libFuzzer (make fuzz_<name>); always it is
# linked with replay.c too, and `make check` replays its corpus,
# tests/fuzz/corpus/<name>/.
