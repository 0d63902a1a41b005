# The phases before this one ran as they do in the build; this one compiles a sample of objects and ends it all.
runHook preBuild
torchsmithConfigured=$SECONDS
cat > "$NIX_BUILD_TOP/torchsmith-rehearse.py" <<'TORCHSMITH_PROGRAM'
@program@TORCHSMITH_PROGRAM
cat > "$NIX_BUILD_TOP/torchsmith-sample.json" <<'TORCHSMITH_SAMPLE'
@sample@
TORCHSMITH_SAMPLE
if [ "$(type -t getAllOutputNames)" = function ]; then torchsmithOutputs=$(getAllOutputNames); else torchsmithOutputs=$outputs; fi
for torchsmithOutput in $torchsmithOutputs; do mkdir -p "${!torchsmithOutput}"; done
python3 "$NIX_BUILD_TOP/torchsmith-rehearse.py" "$NIX_BUILD_TOP/torchsmith-sample.json" "$out" "$torchsmithConfigured"
exit 0
